import 'reflect-metadata';
import { isDeepStrictEqual } from 'node:util';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, ValidationTypes, type ValidatorConstraintInterface } from 'class-validator';
import { isObject, pointerTo, shorten } from '../kernel/json.js';
import { type FieldError, MAX_ERRORS, type ProblemCode, PROBLEMS, refusal, refusalOf } from '../kernel/problems.js';
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

/** A field whose value is an object of a class of its own, or a list of these. */
interface Nested {
  each: boolean;
  plan: () => Plan;
}

interface Field {
  name: string;
  optional: boolean;
  checks: Check[];
  nested: Nested | undefined;
  /** How a query parameter's text becomes a value. */
  fromText: ((text: string) => unknown) | undefined;
  /** How a body's value becomes the DTO's, if a number may be sent as text. */
  fromBody: ((value: unknown) => unknown) | undefined;
}

interface Plan {
  type: Class;
  fields: Field[];
  names: Set<string>;
  /** The field that `tris_id` is another name of. */
  subject: string | undefined;
}

/** Fields that name identities. Where there is one, and no `tris_id`, it may be sent as `tris_id`. */
const SUBJECTS = ['subject_tris', 'subject', 'subjects'];

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
  const inOrder = [...fields.values()].reverse();
  const names = new Set(inOrder.map(({ name }) => name));
  const subject = names.has('tris_id') ? undefined : SUBJECTS.find((name) => names.has(name));
  const plan = { type, fields: inOrder, names, subject };
  plans.set(type, plan);
  return plan;
}

/** The codes of its own that a refusal of an input of this class may have. */
export function codesOf(type: Class): ProblemCode[] {
  const codes = planOf(type).fields.flatMap(({ checks, nested }) => [
    ...checks.map(({ code }) => code),
    ...(nested ? codesOf(nested.plan().type) : []),
  ]);
  return codes.filter((code): code is ProblemCode => code !== undefined && code in PROBLEMS);
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
    throw refusalOf('', body === undefined ? 'required' : 'is_object', message);
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

function run(plan: Plan, source: Record<string, unknown>, isText: boolean, pointer: Pointer): object {
  const reading = new Reading(pointer);
  const result = reading.object(plan, source, '', isText);
  if (reading.errors.length > 0) throw refusal(reading.errors);
  return result;
}

/** The reading of one input, and what is wrong with it. */
class Reading {
  readonly errors: FieldError[] = [];

  constructor(private readonly pointer: Pointer) {}

  /** @param at the object's pointer; @param isText whether its values are texts, as those of query parameters */
  object(plan: Plan, given: Record<string, unknown>, at: string, isText: boolean): object {
    const source = plan.subject !== undefined ? this.renamed(plan.subject, given, at) : given;
    const target = new plan.type() as Record<string, unknown>;
    let present = 0;
    for (const field of plan.fields) {
      const { name, nested } = field;
      let value = Object.hasOwn(source, name) ? source[name] : undefined;
      if (value === undefined) {
        if (!field.optional && target[name] === undefined) this.noteMissing(field, source, at);
        continue;
      }
      present++;
      if (isText) {
        if (Array.isArray(value) && isCommaSeparated(plan.type.prototype, name)) value = value.join(',');
        if (Array.isArray(value)) {
          this.note(this.pointer(at, name), 'repeated', `${name} must be given once, not ${value.length} times`);
          continue;
        }
        if (field.fromText) value = field.fromText(value as string);
      } else if (field.fromBody) value = field.fromBody(value);
      const failed = field.checks.find((rule) => !holds(rule, field, value, source));
      if (failed) this.noteWrong(failed, field, value, source, at, isText);
      else target[name] = nested ? this.nested(nested, name, value, this.pointer(at, name)) : value;
    }
    if (present < Object.keys(source).length) this.noteUnknown(plan, source, at, isText);
    return target;
  }

  /** @returns the input with the value of `tris_id` under the name of the field */
  private renamed(subject: string, given: Record<string, unknown>, at: string): Record<string, unknown> {
    if (!Object.hasOwn(given, 'tris_id')) return given;
    const { tris_id, ...source } = given;
    if (Object.hasOwn(given, subject) && !isDeepStrictEqual(given[subject], tris_id)) {
      const message = `tris_id is another name of ${subject}: send one of them, or the same value in both`;
      this.note(this.pointer(at, 'tris_id'), 'contradiction', message);
    }
    return { ...source, [subject]: tris_id };
  }

  private nested({ each, plan }: Nested, name: string, value: unknown, at: string): unknown {
    if (!each) return this.nestedObject(plan(), name, value, at);
    if (!Array.isArray(value)) return this.noteKind('is_array', 'an array', name, value, at);
    return value.map((item, i) => this.nestedObject(plan(), `${name}[${i}]`, item, this.pointer(at, i)));
  }

  private nestedObject(plan: Plan, name: string, value: unknown, at: string): unknown {
    if (isObject(value)) return this.object(plan, value, at, false);
    return this.noteKind('is_object', 'a JSON object', name, value, at);
  }

  private note(pointer: string, code: string, message: string): void {
    this.errors.push({ pointer, code, message });
  }

  private noteKind(code: string, what: string, name: string, value: unknown, at: string): void {
    this.note(at, code, `${name} must be ${what}${received(value)}`);
  }

  private noteMissing(field: Field, source: object, at: string): void {
    const { checks, name } = field;
    const rule = checks.find((check) => !holds(check, field, undefined, source)) ?? checks[0];
    const must = rule && messageOf(rule, field, undefined, source);
    this.note(this.pointer(at, name), 'required', must ? `${name} is missing: ${must}` : `${name} is missing`);
  }

  private noteWrong(rule: Check, field: Field, value: unknown, source: object, at: string, isText: boolean): void {
    const place = rule.each && Array.isArray(value) ? firstWrong(rule, field, value, source) : -1;
    const wrong = place < 0 ? value : (value as unknown[])[place];
    const pointer = this.pointer(at, field.name);
    const code = rule.code ?? snakeCase(rule.name);
    const message = messageOf(rule, field, wrong, source) + received(wrong);
    this.note(place < 0 || isText ? pointer : this.pointer(pointer, place), code, message);
  }

  private noteUnknown(plan: Plan, source: object, at: string, isText: boolean): void {
    const known = [...plan.names].join(', ') || 'none';
    const code = isText ? 'unknown_parameter' : 'unknown_field';
    for (const name of Object.keys(source)) {
      if (plan.names.has(name)) continue;
      if (this.errors.length >= MAX_ERRORS) {
        // Only counted.
        this.note('', code, '');
        continue;
      }
      const message = `${JSON.stringify(shorten(name))} is unknown; known are ${known}`;
      this.note(this.pointer(at, shorten(name).toWellFormed()), code, message);
    }
  }
}

function holds(rule: Check, field: Field, value: unknown, object: object): boolean {
  const args = { value, object, property: field.name, targetName: '', constraints: rule.constraints };
  if (!rule.each) return rule.validator.validate(value, args) === true;
  return Array.isArray(value) && value.every((item) => rule.validator.validate(item, args) === true);
}

function firstWrong(rule: Check, field: Field, values: unknown[], object: object): number {
  return values.findIndex((item) => !holds({ ...rule, each: false }, field, item, object));
}

/** In place of what class-validator says of its checks. */
const MESSAGES: Record<string, string> = {
  isInt: 'must be an integer',
  isNumber: 'must be a number',
  isBoolean: 'must be true or false',
  isIn: 'must be one of $constraint1',
  min: 'must be at least $constraint1',
  max: 'must be at most $constraint1',
  isLength: 'must have $constraint1 to $constraint2 characters',
  maxLength: 'must have at most $constraint1 characters',
  arrayMinSize: 'must list at least $constraint1',
  arrayMaxSize: 'must list at most $constraint1',
  arrayNotEmpty: 'must list at least 1',
  matches: 'must match $constraint1',
};

function messageOf(rule: Check, field: Field, value: unknown, object: object): string {
  const args = { value, object, property: field.name, targetName: '', constraints: rule.constraints };
  const template =
    typeof rule.message === 'function'
      ? rule.message(args as never)
      : (rule.message ??
        (rule.name in MESSAGES ? `$property ${MESSAGES[rule.name]}` : rule.validator.defaultMessage?.(args)) ??
        '$property is not valid');
  return template
    .replaceAll('$property', field.name)
    .replaceAll('$value', () => received(value).slice('; received '.length))
    .replace(/\$constraint(\d+)/g, (_all, index) => [rule.constraints[Number(index) - 1]].flat().join(', '));
}

function received(value: unknown): string {
  if (typeof value === 'string') return `; received ${JSON.stringify(shorten(value))}`;
  if (Array.isArray(value)) return `; received an array of ${value.length}`;
  return `; received ${typeof value === 'object' && value !== null ? 'an object' : String(value)}`;
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
