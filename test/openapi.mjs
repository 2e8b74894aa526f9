/**
 * The OpenAPI document of the built service, and the check of it: `redocly lint` with its recommended rules, spectral
 * with those for OpenAPI, that every field and parameter has a description, that src/app/reference.ts describes nothing
 * else, and that the client's types are made from it.
 * Warnings count.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = join(import.meta.dirname, '..');
const require = createRequire(import.meta.url);

/** Starts the built service on a folder of its own, and asks it. @returns {Promise<object>} */
export async function servedDocument() {
  const data = mkdtempSync(join(tmpdir(), 'credence-openapi-'));
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('CREDENCE_'));
  const env = { ...Object.fromEntries(others), CREDENCE_DATA: data, CREDENCE_PORT: '0', CREDENCE_LOG_LEVEL: 'error' };
  const server = spawn(process.execPath, [join(ROOT, 'dist/src/main.js')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((settle) => server.once('close', settle));
  try {
    for await (const line of createInterface(server.stdout)) {
      const [, url] = /^Credence serves (http:\/\/\S+)/.exec(line) ?? [];
      if (url) return await (await fetch(`${url}/openapi.json`)).json();
    }
    throw new Error('The service ended before it served its document.');
  } finally {
    server.kill('SIGTERM');
    await ended;
    rmSync(data, { recursive: true, force: true });
  }
}

/** @returns {string[]} what redocly reports */
function redocly(document) {
  const folder = mkdtempSync(join(tmpdir(), 'credence-openapi-'));
  try {
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(document));
    const command = join(ROOT, 'test/node_modules/@redocly/cli/bin/cli.js');
    const args = [command, 'lint', 'openapi.json', '--extends=recommended', '--format=json', '--max-problems=1000'];
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
    const start = stdout.indexOf('{');
    if (start < 0) throw new Error(`redocly ended without a result: ${stdout}${stderr}`);
    const { problems } = JSON.parse(stdout.slice(start));
    return problems.map(({ ruleId, message, location }) => `${ruleId} ${location[0]?.pointer}: ${message}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns {Promise<string[]>} what spectral reports */
async function spectral(document) {
  const { Spectral } = require('@stoplight/spectral-core');
  const { oas } = require('@stoplight/spectral-rulesets');
  const linter = new Spectral();
  linter.setRuleset({ extends: [[oas, 'recommended']] });
  const results = await linter.run(document);
  return results.map(({ code, message, path }) => `${code} ${path.join('/')}: ${message}`);
}

/** The fields and parameters. @returns {{ at: string, name: string, description?: string }[]} */
function fieldsOf({ components, paths }) {
  const fields = Object.entries(components.schemas).flatMap(([schema, { properties = {} }]) =>
    Object.entries(properties).map(([name, { description }]) => ({ at: `${schema}.${name}`, name, description })),
  );
  const parameters = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { parameters: all = [] }]) =>
      all.map(({ name, description }) => ({ at: `${method} ${path} ${name}`, name, description })),
    ),
  );
  return [...fields, ...parameters];
}

/** @returns {string[]} the fields and parameters without a description */
function undescribed(document) {
  return fieldsOf(document)
    .filter(({ description }) => !description)
    .map(({ at }) => `no description: ${at} (a common field is described in src/app/reference.ts)`);
}

/** @returns {Promise<string[]>} the descriptions that no field has: none is so named, or each has one of its own */
async function unused(document) {
  const { REFERENCE } = await import('../dist/src/app/reference.js');
  const fields = fieldsOf(document);
  const isUsed = ([name, { description }]) =>
    fields.some((field) => field.name === name && [undefined, field.description].includes(description));
  return Object.entries(REFERENCE.fields)
    .filter((entry) => !isUsed(entry))
    .map(([name]) => `no field has this description: ${name} of src/app/reference.ts`);
}

/** The union of all messages is for clients: the section `webhooks` names each of them, and no route has it. */
const isForClients = (finding) => /unused.*WebhookMessageDto/.test(finding);

if (process.argv[1] === import.meta.filename) {
  const given = process.argv[2];
  const document = given ? JSON.parse(readFileSync(given, 'utf8')) : await servedDocument();
  // Not at the top: generate.mjs imports this file.
  const { staleTypes } = await import('../clients/typescript/generate.mjs');
  const found = [
    ...[...redocly(document), ...(await spectral(document))].filter((finding) => !isForClients(finding)),
    ...undescribed(document),
    ...(await unused(document)),
    ...(await staleTypes(document)),
  ];
  for (const line of found) console.error(line);
  if (found.length > 0) console.error(`${found.length} findings in the OpenAPI document`);
  process.exitCode = found.length > 0 ? 1 : 0;
}
