import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import type { Answer } from './server.js';

export interface Operation {
  parameters?: { in: string; name: string; required?: boolean; schema: object }[];
  requestBody?: { content: Record<string, { schema: object }> };
  responses: Record<string, { headers?: Record<string, object>; content?: Record<string, { schema: object }> }>;
}
export interface OpenApiDocument {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
  webhooks: Record<string, object>;
}

/** Types whose schema is a text, also where one line of it happens to be JSON. */
const TEXTS = new Set(['text/event-stream', 'application/x-ndjson']);
/** Headers that an answer may have only where the document names them. */
const HEADERS = [
  'Allow',
  'Credence-Position',
  'ETag',
  'Location',
  'RateLimit',
  'RateLimit-Limit',
  'RateLimit-Policy',
  'Retry-After',
];

/**
 * Holds answers against the OpenAPI document, more strictly than it asks: a member it does not name is an error too, so
 * that the document and the service cannot drift apart.
 */
export class OpenApi {
  private readonly ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  private readonly paths: { pattern: RegExp; path: string; operations: Record<string, Operation> }[];

  constructor(readonly document: OpenApiDocument) {
    this.paths = Object.entries(document.paths).map(([path, operations]) => ({
      pattern: new RegExp(`^${path.replace(/[.]/g, '\\.').replace(/\{[^}]+\}/g, '[^/]+')}$`),
      path,
      operations,
    }));
    this.ajv.addSchema(withoutOtherMembers(document) as object, 'api');
  }

  /** Undocumented addresses and methods are left to the caller: their answer is 404 or 405. Says whether it is documented. */
  expectAnswer(method: string, path: string, answer: Answer): boolean {
    const address = path.split('?')[0]!;
    const found = this.paths.filter(({ pattern }) => pattern.test(address));
    // As the router does: of several patterns the one that has fewest parameters.
    const at = found.sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0];
    const verb = method.toLowerCase();
    const operation = at?.operations[verb];
    if (!operation) return false;
    const name = `${method} ${address} ${answer.status}`;
    const documented = operation.responses[answer.status];
    if (!documented) throw new Error(`${name} is not documented (${Object.keys(operation.responses)}): ${answer.text}`);
    const unnamed = HEADERS.filter((header) => header.toLowerCase() in answer.headers && !documented.headers?.[header]);
    if (unnamed.length > 0) throw new Error(`${name} has undocumented headers: ${unnamed.join(', ')}`);
    if (answer.status === 304) return true;
    const types = Object.keys(documented.content ?? {});
    const type = types.find((known) => String(answer.headers['content-type']).startsWith(known));
    const errors =
      type === undefined
        ? [`is ${answer.headers['content-type']}, not ${types.join(' or ')}`]
        : TEXTS.has(type)
          ? []
          : this.errors(['paths', at!.path, verb, 'responses', `${answer.status}`, 'content', type, 'schema'], answer);
    if (errors.length > 0) throw new Error(`${name} is not as documented:\n${errors.join('\n')}\n${answer.text}`);
    return true;
  }

  /** A message to a webhook. */
  expectMessage(message: { type: string }): void {
    const schema = ['post', 'requestBody', 'content', 'application/json', 'schema'];
    const text = JSON.stringify(message);
    const errors = this.errors(['webhooks', message.type, ...schema], { json: message });
    if (errors.length > 0) throw new Error(`a message is not as documented:\n${errors.join('\n')}\n${text}`);
  }

  /** A refusal of something that is not documented, such as an unknown address. */
  expectProblem(answer: Answer): void {
    const errors = this.errors(['components', 'schemas', 'ProblemDto'], answer);
    if (answer.headers['content-type'] !== 'application/problem+json') errors.push('is no application/problem+json');
    if (errors.length > 0) throw new Error(`${answer.status} is no problem:\n${errors.join('\n')}\n${answer.text}`);
  }

  private errors(place: readonly string[], { json }: Pick<Answer, 'json'>): string[] {
    const pointer = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')));
    const validate = this.ajv.getSchema(`api#/${pointer.join('/')}`)!;
    if (validate(json)) return [];
    return (validate.errors as ErrorObject[]).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }
}

/** A copy in which an object has no members but those its schema names. */
function withoutOtherMembers(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutOtherMembers);
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(Object.entries(node).map(([name, member]) => [name, withoutOtherMembers(member)]));
  const isSchema = typeof copy['properties'] === 'object' && !('additionalProperties' in copy);
  return isSchema ? { ...copy, additionalProperties: false } : copy;
}
