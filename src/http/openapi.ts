import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { Config, PublicReads } from '../kernel/config.js';
import { PROBLEMS } from '../kernel/problems.js';
import { FieldErrorDto, ProblemDto } from './common.dto.js';
import { NDJSON } from './json-body.js';
import { LIST, PUBLIC_WITH } from './routes.js';

/** OpenAPI 3.1 at /openapi.json, a page for it at /docs and the list of problems at /docs/problems. */
export function serveDocs(app: NestFastifyApplication, config: Config, version: string): void {
  // Built at the first request, so that it does not delay the boot.
  let built: OpenAPIObject | undefined;
  const document = () => (built ??= buildDocument(app, config, version));
  SwaggerModule.setup('docs', app, document, { raw: false, customSiteTitle: 'Credence API' });
  // One buffer for all answers: a text would be encoded, and kept until it is sent, for each request.
  let json: Buffer | undefined;
  const page = Buffer.from(problemsPage());
  const server = app.getHttpAdapter().getInstance();
  server.get('/openapi.json', (_request, reply) => {
    json ??= Buffer.from(JSON.stringify(document()));
    reply.type('application/json; charset=utf-8').send(json);
  });
  server.get('/docs/problems', (_request, reply) => {
    reply.type('text/html; charset=utf-8').send(page);
  });
}

export function buildDocument(app: NestFastifyApplication, config: Config, version: string): OpenAPIObject {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Credence')
    .setDescription('Credibility scores and access decisions from verified actions.')
    .setVersion(version)
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key' }, 'api_key')
    .addBearerAuth({ type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }, 'session');
  builder.addServer(config.publicUrl ?? '/');
  const document = SwaggerModule.createDocument(app, builder.build(), {
    extraModels: [ProblemDto, FieldErrorDto],
    operationIdFactory: (controller, method) => `${controller.replace(/Controller$/, '')}_${method}`,
  });
  makeDefaultsOptional(document);
  writeSecurity(document, config);
  writeLists(document);
  return document;
}

/** Which queries need a key depends on the configuration. */
function writeSecurity({ paths }: OpenAPIObject, { publicReads }: Config): void {
  for (const item of Object.values(paths)) {
    for (const operation of Object.values(
      item as Record<string, { security?: object[]; [PUBLIC_WITH]?: readonly PublicReads[] }>,
    )) {
      if (operation[PUBLIC_WITH]?.includes(publicReads) === false) operation.security = [{ api_key: [] }];
      delete operation[PUBLIC_WITH];
    }
  }
}

/** A body that is a list can be sent as NDJSON, for which OpenAPI 3.1 has no schema. */
function writeLists({ paths }: OpenAPIObject): void {
  for (const { post } of Object.values(paths)) {
    const operation = post as { requestBody?: { content: Record<string, object> }; [LIST]?: string } | undefined;
    const name = operation?.[LIST];
    if (name === undefined) continue;
    delete operation![LIST];
    const description = `One element of \`${name}\` as a JSON object in each line (NDJSON).`;
    operation!.requestBody!.content[NDJSON] = { schema: { type: 'string', description } };
  }
}

/** A field with a default is optional. The compiler plugin marks it as required, since its type has no `?`. */
function makeDefaultsOptional({ paths, components }: OpenAPIObject): void {
  for (const item of Object.values(paths)) {
    for (const operation of Object.values(
      item as Record<string, { parameters?: { required?: boolean; schema?: object }[] }>,
    )) {
      for (const parameter of operation.parameters ?? []) {
        if (parameter.schema && 'default' in parameter.schema) parameter.required = false;
      }
    }
  }
  for (const schema of Object.values(components?.schemas ?? {})) {
    if (!('properties' in schema) || !schema.required) continue;
    schema.required = schema.required.filter((name) => !('default' in (schema.properties?.[name] ?? {})));
  }
}

function problemsPage(): string {
  const rows = Object.entries(PROBLEMS).map(
    ([code, [status, title]]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td></tr>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Problems</title><h1>Problems</h1>
<p>Every refusal is <code>application/problem+json</code> (RFC 9457); <code>code</code> names its kind.</p>
<table><thead><tr><th>code</th><th>status</th><th>meaning</th></tr></thead><tbody>${rows.join('\n')}</tbody></table></html>`;
}
