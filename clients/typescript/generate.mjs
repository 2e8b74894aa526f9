/**
 * `npm run generate:client`: writes src/schema.ts, the types of the OpenAPI document that the built service serves.
 * `npm run check:openapi` compares the file with the document.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import openapiTypescript, { astToString } from 'openapi-typescript';

const FILE = join(import.meta.dirname, 'src/schema.ts');
const METHODS = ['get', 'post', 'patch', 'delete'];

/**
 * Without the answers of refusals, which are one class in the client, and without response headers: both are repeated at
 * every operation, and would be nine tenths of the file.
 */
function successes(document) {
  const copy = structuredClone(document);
  for (const item of Object.values(copy.paths)) {
    for (const method of METHODS) {
      const operation = item[method];
      if (!operation) continue;
      for (const [status, response] of Object.entries(operation.responses)) {
        if (status.startsWith('2')) delete response.headers;
        else delete operation.responses[status];
      }
    }
  }
  delete copy.components.headers;
  delete copy.webhooks; // Their messages are schemas.
  return copy;
}

/** @param {object} document OpenAPI 3.1 @returns {Promise<string>} */
export async function typesOf(document) {
  // A field with a default may be left out of a request.
  const types = await openapiTypescript(successes(document), { defaultNonNullable: false });
  return `/** Made from the OpenAPI document of the service by generate.mjs. */\n${astToString(types)}`;
}

/** @param {object} document @returns {Promise<string[]>} what is wrong with the checked-in types */
export async function staleTypes(document) {
  if (readFileSync(FILE, 'utf8') === (await typesOf(document))) return [];
  return ['clients/typescript/src/schema.ts is not made from this document: run "npm run generate:client"'];
}

if (process.argv[1] === import.meta.filename) {
  // Not awaited here: that module imports this one, and would wait for it for ever.
  void import('../../test/openapi.mjs').then(async ({ servedDocument }) => {
    writeFileSync(FILE, await typesOf(await servedDocument()));
  });
}
