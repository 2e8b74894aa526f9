import { existsSync } from 'node:fs';
import {
  DEVELOPMENT_ID,
  acceptedKeys,
  createKey,
  hasDevelopmentKey,
  keysFile,
  readDevelopmentKey,
  revokeKey,
  storedKeys,
} from '../credentials/api-keys.js';
import { type Scope, SCOPES } from '../credentials/caller.js';
import type { Cli, Context, JsonOption } from './cli.js';
import { CommandFailed } from './exit.js';
import { table } from './table.js';

type CreateOptions = JsonOption & { id: string; scopes: string; organization?: string };

export function keysCommands(cli: Cli): void {
  const keys = cli.program.command('keys').description('create, list and revoke API keys');

  keys
    .command('create')
    .description('create a key and print it; only its digest is stored. Running servers accept it within a second')
    .requiredOption('--id <id>', 'name of the key, which no other key has had; events record it as key:<id>')
    .requiredOption('--scopes <list>', `what the key permits, separated by commas: ${SCOPES.join(', ')}`)
    .option('--organization <tris>', 'the organization that the key acts for')
    .option('--json', 'print the key with its id, scopes and organization as JSON')
    .action(cli.withConfig(create));

  keys
    .command('list')
    .description('list the keys, without their secrets')
    .option('--json', 'print them as JSON')
    .action(cli.withConfig(list));

  keys
    .command('revoke <id>')
    .description('remove a key; running servers refuse it within a second')
    .action(cli.withConfig(revoke));
}

async function create({ config, print, note }: Context, { id, scopes, organization, json }: CreateOptions) {
  const names = [...new Set(scopes.split(',').map((scope) => scope.trim()))] as Scope[];
  const key = await createKey(config, { id, scopes: names, ...(organization !== undefined && { organization }) });
  note(`Key ${id}, shown only this once:`);
  print(json ? JSON.stringify({ id, key, scopes: names, organization: organization ?? null }) : key);
}

async function list({ config, print }: Context, { json }: JsonOption) {
  const file = config.inData('dev-api-key');
  const isDevelopment = hasDevelopmentKey(config) && existsSync(file);
  if (isDevelopment) readDevelopmentKey(file);
  const records = acceptedKeys(storedKeys(config), isDevelopment).map(({ id, scopes, organization }) => {
    return { id, scopes, organization: organization ?? null };
  });
  const rows = records.map(({ id, scopes, organization }) => {
    return { id, scopes: scopes.join(','), organization: organization ?? '-' };
  });
  print(json ? JSON.stringify(records) : table(rows, 'no keys'));
}

async function revoke({ config, print }: Context, id: string) {
  if (!(await revokeKey(config, id))) {
    const isDevelopment = id === DEVELOPMENT_ID && hasDevelopmentKey(config);
    const why = isDevelopment ? ': the development key ends with NODE_ENV=production' : '';
    throw new CommandFailed(`There is no key ${id} in ${keysFile(config)}${why}.`);
  }
  print(`revoked ${id}`);
}
