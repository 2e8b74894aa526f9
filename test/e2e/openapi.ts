import type { Answer } from './server.js';

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  allOf?: Schema[];
  nullable?: unknown;
  pattern?: string;
}

/**
 * Holds answers against the OpenAPI document, more strictly than it asks: a member it does not name is an error too, so
 * that the document and the service cannot drift apart.
 */
export class OpenApi {
  private readonly paths: { pattern: RegExp; operations: Record<string, any> }[];

  constructor(readonly document: any) {
    this.paths = Object.entries<any>(document.paths).map(([path, operations]) => ({
      pattern: new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{[^}]+\}/g, '[^/]+')}$`),
      operations,
    }));
  }

  /** Undocumented addresses and methods are left to the caller: their answer is 404 or 405. */
  expectAnswer(method: string, path: string, answer: Answer): void {
    const address = path.split('?')[0]!;
    const operation = this.paths.find(({ pattern }) => pattern.test(address))?.operations[method.toLowerCase()];
    if (!operation || answer.status === 304) return;
    const name = `${method} ${address} ${answer.status}`;
    const documented = operation.responses[answer.status];
    if (!documented) throw new Error(`${name} is not documented (${Object.keys(operation.responses)}): ${answer.text}`);
    const [[type, { schema }]] = Object.entries<any>(documented.content) as [[string, { schema: Schema }]];
    const errors: string[] = [];
    if (!String(answer.headers['content-type']).startsWith(type)) errors.push(`is ${answer.headers['content-type']}`);
    this.check(schema, answer.json, '', errors);
    if (errors.length > 0) throw new Error(`${name} is not as documented:\n${errors.join('\n')}\n${answer.text}`);
  }

  private check(schema: Schema, value: unknown, at: string, errors: string[]): void {
    if (schema.$ref !== undefined) {
      const target = this.document.components.schemas[schema.$ref.split('/').at(-1)!];
      if (!target) return void errors.push(`${at}: ${schema.$ref} does not exist`);
      return this.check(target, value, at, errors);
    }
    for (const part of schema.allOf ?? []) this.check(part, value, at, errors);
    if (schema.anyOf) {
      const attempts = schema.anyOf.map((option) => {
        const own: string[] = [];
        this.check(option, value, at, own);
        return own;
      });
      if (attempts.every((own) => own.length > 0))
        errors.push(`${at} fits none of anyOf: ${attempts.flat().join('; ')}`);
    }
    if (schema.enum && !schema.enum.includes(value)) errors.push(`${at} is ${JSON.stringify(value)}, not in its enum`);
    const types = [schema.type ?? []].flat();
    if (types.length > 0 && !types.some((type) => isOfType(type, value))) {
      return void errors.push(`${at} is ${JSON.stringify(value)}, not ${types.join(' or ')}`);
    }
    if (typeof value === 'string' && schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)) {
      errors.push(`${at} does not match ${schema.pattern}`);
    }
    if (Array.isArray(value)) {
      value.forEach((item, i) => schema.items && this.check(schema.items, item, `${at}/${i}`, errors));
    } else if (typeof value === 'object' && value !== null && (schema.properties || schema.additionalProperties)) {
      this.checkMembers(schema, value as Record<string, unknown>, at, errors);
    }
  }

  private checkMembers(schema: Schema, value: Record<string, unknown>, at: string, errors: string[]): void {
    for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) errors.push(`${at}/${name} is missing`);
    for (const [name, member] of Object.entries(value)) {
      const known = schema.properties?.[name] ?? schema.additionalProperties;
      if (typeof known === 'object') this.check(known, member, `${at}/${name}`, errors);
      else if (known !== true) errors.push(`${at}/${name} is not documented`);
    }
  }
}

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
