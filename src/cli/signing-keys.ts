import { WEBHOOKS, type WebhookRow } from '../../projections/webhooks.js';
import type { Config } from '../kernel/config.js';
import { issuerKeyFile } from '../credentials/issuer-keys.js';
import { SignedCheckpoints, logKeyFile, verifierKey } from '../credentials/log-key.js';
import { ANNOUNCED_MS } from '../credentials/key-file.js';
import { beginOrigin } from '../features/checkpoints/begin-origin.js';
import { REASON_CODE } from '../kernel/identifiers.js';
import { signingKeyFile } from '../credentials/signing-keys.js';
import { Views } from '../read-side/views.js';
import type { Cli, Context, JsonOption, StoresContext } from './cli.js';
import { CommandFailed, UsageError } from './exit.js';
import { type HandlersContext, withHandlers } from './handlers.js';
import { table } from './table.js';

const MINUTE_MS = 60_000;
const MAX_LISTED = 100_000;

type Options = { vouchers?: boolean; log?: boolean };
type RotateOptions = Options & { in?: string; atOnce?: boolean };

export function signingKeysCommands(cli: Cli): void {
  const keys = cli.program
    .command('signing-keys')
    .description('create and rotate the keys that sign tokens and proofs');
  const ofFile = (name: string) =>
    keys
      .command(name)
      .option('--vouchers', 'manage the keys of vouchers instead; contracts must trust an address before it signs')
      .option('--log', 'the key of checkpoints of the log instead, best in a file that no backup contains');

  ofFile('create')
    .description('create the file, with one key that signs at once, for processes that share it')
    .action(cli.withConfig(create));

  ofFile('list')
    .description('list the keys, without their private parts')
    .option('--json', 'print them as JSON')
    .action(cli.withConfig(list));

  ofFile('rotate')
    .description('announce a new key that signs later; running servers publish it within a second')
    .option('--in <minutes>', `minutes until it signs, at least ${ANNOUNCED_MS / MINUTE_MS}`)
    .option(
      '--at-once',
      'sign with the new key now, although verifiers may not know it yet; for replacing a stolen key',
    )
    .action(cli.withConfig(rotate));

  ofFile('revoke <kid>')
    .description('remove a leaked key: what it signed is refused within a second, and another key signs at once')
    .option('--overlap', 'it has not leaked: for a day, messages of webhooks are signed by their former secrets, too')
    .action(cli.withConfig(revoke));

  keys
    .command('new-origin')
    .description('begin a new origin of checkpoints, for a log that does not extend what its key has signed')
    .requiredOption('--reason <code>', 'the reason, as a code of lower-case letters, digits and underscores')
    .action(cli.withStores('existing', newOrigin));

  keys
    .command('verifier-key')
    .description('print the keys by which others verify checkpoints of the log, as C2SP signed-note writes them')
    .action(cli.withStores('existing', printVerifierKey));

  keys
    .command('webhooks')
    .description('list the webhooks, whose secrets follow from the file and change with every revocation')
    .action(withHandlers(cli, 'existing', [], webhooks));

  ofFile('prune')
    .description('remove retired keys whose last token has expired; reports and metrics they signed no longer verify')
    .action(cli.withConfig(prune));
}

async function printVerifierKey({ config, stores, print }: StoresContext) {
  const last = await new SignedCheckpoints(config, stores.keyValue).last();
  if (last === undefined) throw new CommandFailed('No checkpoint was signed yet, so the key has no name.');
  for (const { key } of logKeyFile(config).read()) print(verifierKey(last.origin, key.jwk.x));
}

async function newOrigin({ config, stores, actor, print }: StoresContext, { reason }: { reason: string }) {
  if (!REASON_CODE.test(reason)) throw new UsageError(`"${reason}" is not a code of lower-case letters, digits and _.`);
  const last = await new SignedCheckpoints(config, stores.keyValue).last();
  const origin = await beginOrigin(stores.eventStore, last?.origin ?? null, reason, actor);
  print(`Checkpoints of the log have the origin ${origin} from now on.`);
}

async function create({ config, print }: Context, options: Options) {
  const file = fileOf(config, options);
  if (!file.create()) throw new CommandFailed(`${file.path} exists already; "signing-keys rotate" adds a key to it.`);
  print(`Created ${file.path}; keep it secret.`);
}

async function list({ config, print }: Context, { json, ...options }: Options & JsonOption) {
  const listed = existing(config, options).list(Date.now());
  const rows = listed.map(({ kid, status, signs_from, prunable_from }) => {
    return { kid, status, 'signs from': signs_from ?? '-', 'prunable from': prunable_from ?? '-' };
  });
  print(json ? JSON.stringify(listed) : table(rows));
}

async function rotate({ config, print }: Context, { in: minutes, atOnce, ...options }: RotateOptions) {
  const { kid, signs_from } = await existing(config, options).rotate(Date.now(), delay(minutes, atOnce));
  print(`${kid} signs from ${new Date(signs_from).toISOString()}`);
}

async function revoke({ config, print, note }: Context, kid: string, options: Options & { overlap?: boolean }) {
  const other = options.vouchers ? '--vouchers' : options.log ? '--log' : undefined;
  if (other && options.overlap) throw new UsageError(`${other} and --overlap cannot be combined.`);
  const next = await existing(config, options).revoke(kid, Date.now(), options.overlap);
  print(next === null ? `revoked ${kid}` : `revoked ${kid}; ${next} signs from now`);
  if (!other) note('The secrets of all webhooks have changed: "signing-keys webhooks" lists whose.');
}

async function webhooks({ get, print }: HandlersContext) {
  const rows = await get(Views).range({ ...WEBHOOKS, limit: MAX_LISTED });
  const found = rows.map(({ value }) => value as WebhookRow);
  const shown = found.map(({ webhook_id, owner }) => ({ webhook: webhook_id, owner: owner ?? 'operators' }));
  print(table(shown, 'no webhooks'));
}

async function prune({ config, print }: Context, options: Options) {
  const pruned = await existing(config, options).prune(Date.now());
  print(pruned.length > 0 ? `removed ${pruned.join(', ')}` : 'no key to remove');
}

function fileOf(config: Config, { vouchers, log }: Options) {
  if (vouchers && log) throw new UsageError('--vouchers and --log cannot be combined.');
  return vouchers ? issuerKeyFile(config) : log ? logKeyFile(config) : signingKeyFile(config);
}

function existing(config: Config, options: Options) {
  const file = fileOf(config, options);
  if (file.exists) return file;
  const create = `signing-keys create${options.vouchers ? ' --vouchers' : options.log ? ' --log' : ''}`;
  throw new CommandFailed(`${file.path} does not exist; "${create}" creates it.`);
}

function delay(minutes: string | undefined, atOnce: boolean | undefined): number {
  if (atOnce) {
    if (minutes !== undefined) throw new UsageError('--in and --at-once cannot be combined.');
    return 0;
  }
  if (minutes === undefined) return ANNOUNCED_MS;
  const ms = /^\d{1,6}$/.test(minutes) ? Number(minutes) * MINUTE_MS : 0;
  if (ms >= ANNOUNCED_MS) return ms;
  throw new UsageError(`--in must be a whole number of minutes from ${ANNOUNCED_MS / MINUTE_MS}, not "${minutes}".`);
}
