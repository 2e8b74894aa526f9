import 'reflect-metadata';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, ValidationTypes, type ValidatorConstraintInterface } from 'class-validator';
import { isObject, pointerTo, shorten } from '../kernel/json.js';
import { type FieldError, refusal } from '../kernel/problems.js';
import { choiceReader, isCommaSeparated } from './fields.js';

/**
 * Reads a client's input into an instance of a DTO class (class-validator decorators), or refuses it with
 * `validation_failed` and every wrong field. The decorators of a class are compiled once into a flat plan, because
 * class-validator looks its metadata up on each call.
 *
 * A field may be absent only with @IsOptional; `null` is a value, not an absence. Only the first failing check of a
 * field is reported, in the order in which the decorators are written. Unknown fields are refused.
 */
export type Class<T extends object = object> = new () => T;

interface Check {
  name: string;
  each: boolean;
  constraints: unknown[];
  validator: ValidatorConstraintInterface;
  message: string | ((args: never) => string) | undefined;
  code: string | undefined;
}

interface Field {
  name: string;
  optional: boolean;
  checks: Check[];
  nested: { each: boolean; plan: () => Plan } | undefined;
  /** How a query parameter's text becomes a value. */
  fromText: ((text: string) => unknown) | undefined;
  /** How a body's value becomes the DTO's, if a number may be sent as text. */
  fromBody: ((value: unknown) => unknown) | undefined;
}

interface Plan {
  type: Class;
  fields: Field[];
  names: Set<string>;
}

const plans = new WeakMap<Class, Plan>();

export function planOf(type: Class): Plan {
  const known = plans.get(type);
  if (known) return known;
  const storage = getMetadataStorage();
  const fields = new Map<string, Field>();
  // Decorators are applied from the bottom up; reversed, the checks are in the order written.
  for (const rule of storage.getTargetValidationMetadatas(type, '', false, false).reverse()) {
    const name = rule.propertyName;
    let field = fields.get(name);
    if (!field) {
      const fromBody = choiceReader(type.prototype, name);
      const fromText = fromBody ?? textReader(type, name);
      field = { name, optional: false, checks: [], nested: undefined, fromText, fromBody };
      fields.set(name, field);
    }
    if (rule.type === ValidationTypes.CONDITIONAL_VALIDATION) {
      field.optional = true;
    } else if (rule.type === ValidationTypes.NESTED_VALIDATION) {
      const inner = nestedClass(type, name);
      field.nested = { each: rule.each, plan: () => planOf(inner) };
    } else if (rule.constraintCls) {
      for (const constraint of storage.getTargetValidatorConstraints(rule.constraintCls)) {
        field.checks.push({
          name: constraint.name,
          each: rule.each,
          constraints: rule.constraints ?? [],
          validator: constraint.instance,
          message: rule.message as Check['message'],
          code: (rule.context as { code?: string } | undefined)?.code,
        });
      }
    }
  }
  const plan = { type, fields: [...fields.values()].reverse(), names: new Set(fields.keys()) };
  plans.set(type, plan);
  return plan;
}

/** The class that `@Type` names, else the field's own. class-transformer reveals it only by creating an instance. */
function nestedClass(type: Class, name: string): Class {
  const made = plainToInstance(type, { [name]: {} }) as Record<string, object>;
  const named = made[name]!.constructor as Class;
  return named === Object ? (Reflect.getMetadata('design:type', type.prototype, name) as Class) : named;
}

function textReader(type: Class, name: string): Field['fromText'] {
  if (isCommaSeparated(type.prototype, name)) return (text) => text.split(',');
  switch (Reflect.getMetadata('design:type', type.prototype, name)) {
    case Number:
      return (text) => (/^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text);
    case Boolean:
      return (text) => (text === 'true' ? true : text === 'false' ? false : text);
    default:
      return undefined;
  }
}

/** A body that may be empty may be left out. @throws Problem validation_failed, or the one special code all errors share */
export function readBody<T extends object>(type: Class<T>, body: unknown): T {
  if (body === undefined && planOf(type).fields.every(({ optional }) => optional)) return readBody(type, {});
  if (!isObject(body)) {
    const message = body === undefined ? 'a JSON object is required as the body' : 'the body must be a JSON object';
    throw refusal([{ pointer: '', code: body === undefined ? 'required' : 'is_object', message }]);
  }
  return run(planOf(type), body, false, pointerTo) as T;
}

/** @throws Problem validation_failed with the pointer `?name` */
export function readQuery<T extends object>(type: Class<T>, query: Record<string, unknown>): T {
  return run(planOf(type), query, true, (_parent, name) => `?${name}`) as T;
}

/** @throws Problem validation_failed with the parameter's name as the pointer */
export function readParams<T extends object>(type: Class<T>, params: Record<string, unknown>): T {
  return run(planOf(type), params, false, (_parent, name) => String(name)) as T;
}

type Pointer = (parent: string, name: string | number) => string;

function run(plan: Plan, source: Record<string, unknown>, text: boolean, pointer: Pointer): object {
  const errors: FieldError[] = [];
  const result = check(plan, source, '', text, pointer, errors);
  if (errors.length > 0) throw refusal(errors);
  return result;
}

function check(
  plan: Plan,
  source: Record<string, unknown>,
  parent: string,
  text: boolean,
  pointer: Pointer,
  errors: FieldError[],
): object {
  const target = new plan.type() as Record<string, unknown>;
  let present = 0;
  for (const field of plan.fields) {
    let value = Object.hasOwn(source, field.name) ? source[field.name] : undefined;
    if (value === undefined) {
      if (!field.optional && target[field.name] === undefined) {
        const { checks } = field;
        const rule = checks.find((check) => !holds(check, field, undefined, source)) ?? checks[0];
        const must = rule && messageOf(rule, field, undefined, source);
        const message = must ? `${field.name} is missing: ${must}` : `${field.name} is missing`;
        errors.push({ pointer: pointer(parent, field.name), code: 'required', message });
      }
      continue;
    }
    present++;
    if (text) {
      if (Array.isArray(value) && isCommaSeparated(plan.type.prototype, field.name)) value = value.join(',');
      if (Array.isArray(value)) {
        const message = `${field.name} must be given once, not ${value.length} times`;
        errors.push({ pointer: pointer(parent, field.name), code: 'repeated', message });
        continue;
      }
      if (field.fromText) value = field.fromText(value as string);
    } else if (field.fromBody) value = field.fromBody(value);
    const failed = field.checks.find((rule) => !holds(rule, field, value, source));
    if (failed) {
      const at = failed.each && Array.isArray(value) ? firstWrong(failed, field, value, source) : -1;
      const wrong = at < 0 ? value : (value as unknown[])[at];
      errors.push({
        pointer: at < 0 || text ? pointer(parent, field.name) : pointer(pointer(parent, field.name), at),
        code: failed.code ?? snakeCase(failed.name),
        message: messageOf(failed, field, wrong, source) + received(wrong),
      });
      continue;
    }
    target[field.name] = field.nested
      ? checkNested(
          field.nested.plan(),
          field.nested.each,
          field.name,
          value,
          pointer(parent, field.name),
          pointer,
          errors,
        )
      : value;
  }
  const names = Object.keys(source);
  if (present < names.length) {
    for (const name of names) {
      if (plan.names.has(name)) continue;
      const known = [...plan.names].join(', ') || 'none';
      errors.push({
        pointer: pointer(parent, name),
        code: text ? 'unknown_parameter' : 'unknown_field',
        message: `${JSON.stringify(shorten(name))} is unknown; known are ${known}`,
      });
    }
  }
  return target;
}

function checkNested(
  plan: Plan,
  each: boolean,
  name: string,
  value: unknown,
  at: string,
  pointer: Pointer,
  errors: FieldError[],
): unknown {
  if (each && Array.isArray(value)) {
    return value.map((item, index) =>
      checkNested(plan, false, `${name}[${index}]`, item, pointer(at, index), pointer, errors),
    );
  }
  if (!each && isObject(value)) return check(plan, value, at, false, pointer, errors);
  const [code, what] = each ? ['is_array', 'an array'] : ['is_object', 'a JSON object'];
  errors.push({ pointer: at, code, message: `${name} must be ${what}${received(value)}` });
  return value;
}

function holds(rule: Check, field: Field, value: unknown, object: object): boolean {
  const args = { value, object, property: field.name, targetName: '', constraints: rule.constraints };
  if (!rule.each) return rule.validator.validate(value, args) === true;
  return Array.isArray(value) && value.every((item) => rule.validator.validate(item, args) === true);
}

function firstWrong(rule: Check, field: Field, values: unknown[], object: object): number {
  return values.findIndex((item) => !holds({ ...rule, each: false }, field, item, object));
}

function messageOf(rule: Check, field: Field, value: unknown, object: object): string {
  const args = { value, object, property: field.name, targetName: '', constraints: rule.constraints };
  const template =
    typeof rule.message === 'function'
      ? rule.message(args as never)
      : (rule.message ?? rule.validator.defaultMessage?.(args) ?? '$property is not valid');
  return template
    .replaceAll('$property', field.name)
    .replaceAll('$value', () => received(value).slice('; received '.length))
    .replace(/\$constraint(\d+)/g, (_all, index) => String(rule.constraints[Number(index) - 1]));
}

function received(value: unknown): string {
  if (typeof value === 'string') return `; received ${JSON.stringify(shorten(value))}`;
  if (Array.isArray(value)) return `; received an array of ${value.length}`;
  return `; received ${typeof value === 'object' && value !== null ? 'an object' : String(value)}`;
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
