import type { Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, getSchemaPath, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Config } from '../kernel/config.js';
import { PROBLEMS } from '../kernel/problems.js';
import { yieldIfDue } from '../kernel/turn.js';
import { VERSION } from '../kernel/version.js';
import { FieldErrorDto, ProblemDto } from './common.dto.js';
import { FixedText } from './compression.js';
import { NDJSON } from './json-body.js';
import { ANSWER_HEADERS, ROUTES, operationIdOf } from './routes.js';

/** What the document says in addition to the declarations of controllers and DTOs. */
export interface Reference {
  /** Of controllers, in the order of the document; `controller` is the name of its class without "Controller". */
  tags: readonly (readonly [controller: string, name: string, description: string])[];
  /** Fields and parameters by name: what they do not declare themselves. */
  fields: Readonly<Record<string, Readonly<Record<string, unknown>> & { description?: string }>>;
  /** Schemas that DTOs refer to and that are no classes. */
  schemas: Readonly<Record<string, object>>;
  /** Schemas that differ by a field. Asked for when the document is made. */
  variants(app: NestFastifyApplication): readonly Variants[];
}

/** A DTO of which one field depends on the value of another. */
export interface Variants {
  /** Its name, which the name of each variant ends with. */
  dto: string;
  /** The field that tells the variants apart. */
  by: string;
  /** The field that differs. */
  field: string;
  /** By the value of `by`: a DTO, or a schema. */
  of: ReadonlyMap<string, Type<object> | object>;
  /** The variants are messages to webhooks: what each of them tells. */
  webhooks?: Readonly<Record<string, string>>;
}

/** The parts of an operation that are changed here. */
interface Operation {
  operationId: string;
  tags: string[];
  parameters?: { name: string; required?: boolean; description?: string; example?: string; schema?: Schema }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: object; example?: object }> };
  security?: object[];
  responses?: Record<string, { headers?: Record<string, object> }>;
}
interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  [keyword: string]: unknown;
}

/** OpenAPI 3.1 at /openapi.json, a page for it at /docs and the list of problems at /docs/problems. */
export function serveDocs(app: NestFastifyApplication, config: Config, reference: Reference): void {
  // Built at the first request, so that it does not delay the boot. One buffer for all answers: a text would be encoded,
  // and kept until it is sent, for each request.
  let json: Promise<FixedText> | undefined;
  // The page reads the document from its address.
  SwaggerModule.setup('docs', app, () => ({}) as OpenAPIObject, {
    raw: false,
    customSiteTitle: 'Credence API',
    swaggerOptions: { url: '/openapi.json' },
  });
  const page = new FixedText(Buffer.from(problemsPage()));
  const server = app.getHttpAdapter().getInstance();
  server.get('/openapi.json', async (request, reply) => {
    json ??= buildDocument(app, config, reference).then(
      (document) => new FixedText(Buffer.from(JSON.stringify(document))),
    );
    const text = await json;
    return reply.type('application/json; charset=utf-8').send(await text.encodedFor(request, reply));
  });
  server.get('/docs/problems', async (request, reply) =>
    reply.type('text/html; charset=utf-8').send(await page.encodedFor(request, reply)),
  );
}

async function buildDocument(
  app: NestFastifyApplication,
  config: Config,
  reference: Reference,
): Promise<OpenAPIObject> {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Credence')
    .setDescription('Credibility scores and access decisions from verified actions.')
    .setVersion(VERSION)
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key' }, 'api_key')
    .addBearerAuth({ type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }, 'session')
    .addServer(config.publicUrl ?? '/');
  const variants = reference.variants(app);
  const models = variants.flatMap(({ of }) => [...of.values()].filter((form) => typeof form === 'function'));
  const document = await scanned(app, builder.build(), [ProblemDto, FieldErrorDto, ...models]);
  document.components!.headers = ANSWER_HEADERS;
  Object.assign(document.components!.schemas!, reference.schemas);
  const completions = [
    () => makeDefaultsOptional(document),
    () => describeBodies(document),
    () => writeHeadersOfRepeats(document),
    () => writeOperations(document, config),
    () => sortByTag(document, reference.tags),
    () => describeFields(document, reference.fields),
    ...variants.map((each) => () => writeVariants(document, each)),
  ];
  for (const complete of completions) {
    complete();
    await yieldIfDue();
  }
  return document;
}

/** What controllers and DTOs declare. One module after the other, since together they take a tenth of a second. */
async function scanned(
  app: NestFastifyApplication,
  base: Omit<OpenAPIObject, 'paths'>,
  extraModels: Function[],
): Promise<OpenAPIObject> {
  // In the usual order of its members.
  const whole: OpenAPIObject = Object.assign({ openapi: base.openapi, paths: {} }, base);
  for (const { metatype, controllers } of app.get(ModulesContainer).values()) {
    if (controllers.size === 0) continue;
    const part = SwaggerModule.createDocument(app, base, { include: [metatype], operationIdFactory: operationIdOf });
    for (const [path, operations] of Object.entries(part.paths)) {
      whole.paths[path] = { ...whole.paths[path], ...operations };
    }
    whole.components = {
      ...whole.components,
      ...part.components,
      schemas: { ...whole.components?.schemas, ...part.components?.schemas },
    };
    await yieldIfDue();
  }
  const more = SwaggerModule.createDocument(app, base, { include: [class {}], extraModels });
  Object.assign(whole.components!.schemas!, more.components!.schemas);
  return whole;
}

const operationsOf = ({ paths }: OpenAPIObject): Operation[] =>
  Object.values(paths).flatMap((item) => Object.values(item as Record<string, Operation>));

/** Replaces a schema by one for each variant. */
function writeVariants(document: OpenAPIObject, { dto, by, field, of, webhooks = {} }: Variants): void {
  const schemas = document.components!.schemas as Record<string, Schema>;
  const base = schemas[dto];
  if (!base || of.size === 0) return;
  const mapping: Record<string, string> = {};
  for (const [value, form] of of) {
    const own = structuredClone(base) as Required<Schema>;
    own.properties[by] = { ...own.properties[by], enum: [value] };
    const { description, oneOf: forms } = own.properties[field]!;
    const empty = (forms as Schema[] | undefined)?.filter(({ type }) => type === 'null') ?? [];
    const schema = typeof form === 'function' ? { $ref: getSchemaPath(form) } : form;
    own.properties[field] = {
      ...(description !== undefined && { description }),
      ...(empty.length > 0 ? { oneOf: [schema, ...empty] } : schema),
    };
    const name = `${value.replace(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase())}${dto}`;
    schemas[name] = own;
    mapping[value] = getSchemaPath(name);
  }
  const oneOf = Object.values(mapping).map(($ref) => ({ $ref }));
  schemas[dto] = { oneOf, discriminator: { propertyName: by, mapping } };
  for (const [name, summary] of Object.entries(webhooks)) {
    const content = { 'application/json': { schema: { $ref: mapping[name]! } } };
    const responses = { '2XX': { description: 'It has arrived. After any other answer it is sent again.' } };
    const post = { operationId: name, summary, security: [], requestBody: { required: true, content }, responses };
    document.webhooks = { ...document.webhooks, [name]: { post } };
  }
}

/** The other success of an operation, such as 200 for what exists already, has its headers, but names nothing created. */
function writeHeadersOfRepeats(document: OpenAPIObject): void {
  for (const { responses = {} } of operationsOf(document)) {
    const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'));
    const { Location: _, ...headers } = successes.find(([, response]) => response.headers)?.[1].headers ?? {};
    for (const [, response] of successes) response.headers ??= headers;
  }
}

/** What the routes say of their operations. */
function writeOperations(document: OpenAPIObject, { publicReads }: Config): void {
  for (const operation of operationsOf(document)) {
    const { example, at = {}, list, publicWith } = ROUTES.get(operation.operationId)!;
    if (!publicWith.includes(publicReads)) {
      operation.security = operation.security?.filter((credentials) => Object.keys(credentials).length > 0);
    }
    if (list) {
      // OpenAPI 3.1 has no schema for NDJSON.
      const description = `One element of \`${list.name}\` as a JSON object in each line (NDJSON).`;
      operation.requestBody!.content[NDJSON] = { schema: { type: 'string', description } };
    }
    if (example) operation.requestBody!.content['application/json']!.example = example;
    for (const parameter of operation.parameters ?? []) {
      if (Object.hasOwn(at, parameter.name)) parameter.example = at[parameter.name];
    }
  }
}

/** A field with a default is optional. The compiler plugin marks it as required, since its type has no `?`. */
function makeDefaultsOptional(document: OpenAPIObject): void {
  for (const { parameters = [] } of operationsOf(document)) {
    for (const parameter of parameters) {
      if (parameter.schema && 'default' in parameter.schema) parameter.required = false;
    }
  }
  for (const schema of Object.values(document.components?.schemas ?? {})) {
    if (!('properties' in schema) || !schema.required) continue;
    schema.required = schema.required.filter((name) => !('default' in (schema.properties?.[name] ?? {})));
  }
}

/** A body may have no members that its schema does not name, and may be left out if it may be empty. */
function describeBodies(document: OpenAPIObject): void {
  const schemas = document.components!.schemas as Record<string, Schema>;
  const bodies = new Set<string>();
  const addAll = (node: object): void => {
    for (const [, name] of JSON.stringify(node).matchAll(/"#\/components\/schemas\/(\w+)"/g)) bodies.add(name!);
  };
  for (const { operationId, requestBody } of operationsOf(document)) {
    const { needsBody: isNeeded = false } = ROUTES.get(operationId)!;
    if (!requestBody) continue;
    addAll(requestBody);
    const { $ref } = requestBody.content['application/json']!.schema as { $ref: string };
    const { required } = schemas[$ref.split('/').at(-1)!]! as { required?: string[] };
    requestBody.required = isNeeded || (required ?? []).length > 0;
  }
  // Also those that are added meanwhile.
  for (const name of bodies) {
    const schema = schemas[name]!;
    addAll(schema);
    if (schema.properties) schema['additionalProperties'] ??= false;
  }
}

/** Names the tags, and lists them and the paths in their order. */
function sortByTag(document: OpenAPIObject, tags: Reference['tags']): void {
  const served = new Set(operationsOf(document).flatMap((operation) => operation.tags));
  const present = tags.filter(([controller]) => served.has(controller));
  document.tags = present.map(([, name, description]) => ({ name, description }));
  const names = new Map(present.map(([controller, name]) => [controller, name]));
  for (const operation of operationsOf(document)) operation.tags = operation.tags.map((tag) => names.get(tag) ?? tag);
  const order = present.map(([, name]) => name);
  const placeOf = (item: object): number => order.indexOf((Object.values(item) as Operation[])[0]!.tags[0]!);
  document.paths = Object.fromEntries(
    Object.entries(document.paths).sort(([, a], [, b]) => placeOf(a as object) - placeOf(b as object)),
  );
}

function describeFields(document: OpenAPIObject, fields: Reference['fields']): void {
  for (const { properties = {} } of Object.values(document.components?.schemas as Record<string, Schema>)) {
    for (const [name, field] of Object.entries(properties)) complete(field, fields[name]);
  }
  for (const { parameters = [] } of operationsOf(document)) {
    for (const parameter of parameters) parameter.description ??= fields[parameter.name]?.description;
  }
}

/** Adds what a field does not declare itself. A number becomes an integer, if it is known to be one. */
function complete(field: Schema, known: Reference['fields'][string] | undefined): void {
  if (!known) return;
  const { description, type, ...keywords } = known;
  if (description !== undefined) field.description ??= description;
  const types = [field.type ?? []].flat();
  if (types.includes('array') || types.length === 0) return;
  if (type === 'integer') {
    const exact = types.map((one) => (one === 'number' ? 'integer' : one));
    field.type = exact.length === 1 ? exact[0]! : exact;
  }
  for (const [keyword, value] of Object.entries(keywords)) field[keyword] ??= value;
}

/** Texts of the documents, in which code is between backquotes. */
const inHtml = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/`([^`]*)`/g, '<code>$1</code>');

function problemsPage(): string {
  const rows = Object.entries(PROBLEMS).map(
    ([code, [status, title, when]]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td><td>${inHtml(when)}</td></tr>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Problems</title>
<style>:root{color-scheme:light dark}body{max-width:75rem;margin:auto;padding:1rem;font:1rem/1.5 system-ui,sans-serif}table{border-collapse:collapse}th,td{padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8886;text-align:left;vertical-align:top}@media(max-width:50rem){td{overflow-wrap:anywhere}}:target{background:#fd05}</style>
<h1>Problems</h1>
<p>Every refusal is <code>application/problem+json</code> (RFC 9457); <code>code</code> names its kind.</p>
<table><thead><tr><th>code</th><th>status</th><th>title</th><th>when</th></tr></thead><tbody>${rows.join('\n')}</tbody></table></html>`;
}
