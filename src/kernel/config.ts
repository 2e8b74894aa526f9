import { join, resolve } from 'node:path';
import { isURL, length } from 'class-validator';
import { similarName } from './misspelling.js';

/** The configuration is invalid. The message is one sentence for the operator; the boot stops with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** An environment variable: its row in docs/configuration.md, its error message, and how it is read. */
interface Variable<T> {
  name: string;
  description: string;
  /** Ends the sentence "<name> must …". */
  must: string;
  /** The default as an operator would write it; absent when an unset variable has its own meaning (see `unset`). */
  default?: string;
  /** What an unset variable means, if there is no plain default. */
  unset?: string;
  /** May hold a password: its value is never repeated. */
  secret?: boolean;
  /** For a family of variables: the pattern of their names. Its first group is the key in the property's map. */
  family?: RegExp;
  /** The value of what an operator wrote, of a family for each of its variables; undefined if that is not valid. */
  read(text: string): T | undefined;
}
type Declared = Omit<Variable<unknown>, 'read'>;
type Described = Omit<Declared, 'must'>;

export const MODULES = [
  'relay',
  'withdrawals',
  'disc',
  'credonations',
  'organizations',
  'identity',
  'verifications',
  'policies',
  'trove',
  'sessions',
  'wallets',
  'person',
  'disputes',
  'ingestion',
  'webhooks',
] as const;
export type ModuleName = (typeof MODULES)[number];
export const PROFILES = ['embedded', 'cluster'] as const;
export type Profile = (typeof PROFILES)[number];
const ROLES = ['api', 'worker'] as const;
type Role = (typeof ROLES)[number];
export const PUBLIC_READS = ['all', 'scores', 'none'] as const;
/** Which queries need no key (CREDENCE_PUBLIC_READS). */
export type PublicReads = (typeof PUBLIC_READS)[number];
/** The name of who runs a command: no e-mail address. */
export const ACTOR = /^[A-Za-z0-9._-]{1,64}$/;
/** Without `@`, `?` and `#`; what RFC 3986 does not allow would break the messages that wallets sign (ERC-4361). */
const PUBLIC_URL = /^https?:\/\/[A-Za-z0-9.:[\]-]+(\/([A-Za-z0-9._~!$&'()*+,;=:/-]|%[0-9A-Fa-f]{2})*)?$/;
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const isHttpUrl = (text: string, options: Parameters<typeof isURL>[1]): boolean =>
  isURL(text, { protocols: ['http', 'https'], require_protocol: true, require_tld: false, ...options });

/** A text that is kept as it is. */
const text = (accepts: (text: string) => boolean, declared: Declared): Variable<string> => ({
  ...declared,
  read: (given) => (accepts(given) ? given : undefined),
});
/** The same; undefined if it is not set. */
const optional: (...args: Parameters<typeof text>) => Variable<string | undefined> = text;
const isPath = (given: string): boolean => length(given, 1, 4096);
const filePath = (described: Described): Variable<string | undefined> =>
  text(isPath, { ...described, must: 'be the path of a file' });
const whole = (min: number, max: number, described: Described): Variable<number> => ({
  ...described,
  must: `be an integer from ${min} to ${max}`,
  read: (given) => (/^\d{1,15}$/.test(given) && +given >= min && +given <= max ? +given : undefined),
});
/** A bound for each organization, or key without one. */
const bound = (name: string, initial: string, what: string): Variable<number> =>
  whole(0, 1e12, { name: `CREDENCE_ORG_${name}`, description: `${what}; 0 = no limit`, default: initial });
const onOff = (described: Described): Variable<boolean> => ({
  ...described,
  must: 'be "on" or "off"',
  read: (given) => (given === 'on' ? true : given === 'off' ? false : undefined),
});
const oneOf = <T extends string>(values: readonly T[], described: Described): Variable<T> => ({
  ...described,
  must: `be one of ${values.join(', ')}`,
  read: (given) => values.find((value) => value === given),
});
/** Some of these values, by default all. */
const someOf = <T extends string>(values: readonly T[], described: Described): Variable<readonly T[]> => ({
  default: values.join(','),
  ...described,
  must: `be a comma-separated list of ${values.join(', ')}`,
  read: (given) => {
    const items = [...new Set(given.split(',').map((item) => item.trim()))];
    return items.every((item): item is T => values.includes(item as T)) ? items : undefined;
  },
});

/** Everything an operator can set, by the name of its property. */
const VARIABLES = {
  host: text((given) => length(given, 1, 255), {
    name: 'CREDENCE_HOST',
    description: 'Address to listen on; a process that is only a worker serves health and metrics on it',
    default: '127.0.0.1',
    must: 'be a host name or an address',
  }),
  port: whole(0, 65535, {
    name: 'CREDENCE_PORT',
    description: 'Port to listen on; 0 takes any free port and prints it',
    default: '3000',
  }),
  data: text(isPath, {
    name: 'CREDENCE_DATA',
    description:
      'Folder of the log, the read models and the generated keys; in the cluster profile it contains only the marker of the log, and temporary files of builds',
    default: './data',
    must: 'be the path of a folder',
  }),
  profile: oneOf(PROFILES, {
    name: 'CREDENCE_PROFILE',
    description:
      '`embedded`: everything in `CREDENCE_DATA`; `cluster`: EventStoreDB, PostgreSQL, and Redis with BullMQ',
    default: 'embedded',
  }),
  roles: someOf(ROLES, {
    name: 'CREDENCE_ROLES',
    description:
      'What this process does, as a comma-separated list: `api` answers requests, `worker` runs projections and jobs; the embedded profile does both',
  }),
  eventStoreUrl: optional((given) => /^[a-z+]+:\/\/\S+$/.test(given), {
    name: 'EVENTSTORE_URL',
    description: 'Connection string of EventStoreDB, for the cluster profile',
    unset: 'none',
    must: 'be a connection string such as esdb://host:2113?tls=true or kurrentdb://host:2113',
    secret: true,
  }),
  redisUrl: optional((given) => /^rediss?:\/\/\S+$/.test(given), {
    name: 'REDIS_URL',
    description:
      'Address of Redis, for the cluster profile; several hosts mean a Redis Cluster, or Sentinels with `?sentinel=<name of the master>`',
    unset: 'none',
    must: 'have the form redis://[user:password@]host:port[,host:port][/database], or rediss:// for TLS',
    secret: true,
  }),
  databaseUrl: optional((given) => /^postgres(ql)?:\/\/\S+$/.test(given), {
    name: 'CREDENCE_DATABASE_URL',
    description:
      'Address of the PostgreSQL database with the read models, for the cluster profile; `?sslmode=verify-full` for TLS',
    unset: 'none',
    must: 'have the form postgres://user:password@host:port/database',
    secret: true,
  }),
  modules: someOf(MODULES, {
    name: 'CREDENCE_MODULES',
    description: `Modules to serve, as a comma-separated list of ${MODULES.join(', ')}`,
  }),
  publicUrl: optional((given) => PUBLIC_URL.test(given) && isHttpUrl(given, { allow_query_components: false }), {
    name: 'CREDENCE_PUBLIC_URL',
    description:
      'URL under which clients reach the service; the issuer of its proofs, and the site that wallets sign in to',
    unset: '`http://<host>:<port>`',
    must: 'be an http or https URL (RFC 3986) without user, password, query and fragment',
  }),
  publicReads: oneOf(PUBLIC_READS, {
    name: 'CREDENCE_PUBLIC_READS',
    description:
      'Reads without a key: `all`, also the feed of changes; `scores`, all but the feed; `none`, only what verifies tokens and vouchers. A key of any scope reads all, a session what is about its own TRIS; private access policies always need the owner’s or an operator’s',
    default: 'scores',
  }),
  console: onOff({
    name: 'CREDENCE_CONSOLE',
    description: 'Serve the [console](console.md) at `/console`, if it has been built',
    default: 'on',
  }),
  rateLimit: whole(0, 1_000_000_000, {
    name: 'CREDENCE_RATE_LIMIT',
    description: 'Requests per minute and client address on public routes; 0 = no limit',
    default: '600',
  }),
  actionsPerDay: bound(
    'ACTIONS_PER_DAY',
    '5000000',
    'Actions that an organization, or a key without one, may relay on a day (UTC)',
  ),
  bytesPerDay: bound('BYTES_PER_DAY', '1000000000', 'Bytes of these actions as JSON'),
  jobResults: bound('JOB_RESULTS', '50', 'Jobs of an organization, or a key without one, whose lines are kept'),
  jobBytes: bound('JOB_BYTES', '209715200', 'Bytes of these lines'),
  waitingDeliveries: bound(
    'WAITING_DELIVERIES',
    '10000',
    'Deliveries of all webhooks of an organization that may wait',
  ),
  deliveryBytes: bound('DELIVERY_BYTES', '104857600', 'Bytes of their deliveries that wait or can be sent again'),
  disputeDays: whole(0, 36_500, {
    name: 'CREDENCE_DISPUTE_DAYS',
    description:
      'Days after which the dispute of an action lapses that nobody has answered: the action is withdrawn; 0 = never',
    default: '0',
  }),
  maxStalenessSeconds: whole(1, 1_000_000, {
    name: 'CREDENCE_MAX_STALENESS_SECONDS',
    description:
      'Seconds for which the read models may be behind the log before access checks return 503 `projection_behind`, and reads say so in the header `Credence-Lag`',
    default: '10',
  }),
  retainedGenerations: whole(1, 100, {
    name: 'CREDENCE_RETAINED_GENERATIONS',
    description:
      'Number of generations of read models that are kept beside those that serve and those that a rollback would serve; a worker drops the oldest of the others',
    default: '3',
  }),
  freezeMinutes: whole(0, 1_000_000, {
    name: 'CREDENCE_FREEZE_MINUTES',
    description:
      'Minutes for which a worker keeps a generation up to date that does not serve; after that, a swap or rollback to it catches up first; 0 = always up to date',
    default: '60',
  }),
  trustProxy: onOff({
    name: 'CREDENCE_TRUST_PROXY',
    description: 'Trust the client address in X-Forwarded-For; use it only behind a proxy that sets this header',
    default: 'off',
  }),
  webhookLoopback: onOff({
    name: 'CREDENCE_WEBHOOK_LOOPBACK',
    description: 'Let webhooks lead to this machine, also by http: for development',
    default: 'off',
  }),
  webhookPorts: {
    name: 'CREDENCE_WEBHOOK_PORTS',
    description: 'Ports to which webhooks may lead, as a comma-separated list; on this machine all',
    default: '443',
    must: 'be a comma-separated list of ports',
    read: (given: string) => (/^[1-9]\d{0,4}(,[1-9]\d{0,4})*$/.test(given) ? given.split(',') : undefined),
  },
  apiKeys: filePath({
    name: 'CREDENCE_API_KEYS',
    description: 'JSON file `[{id, sha256, scopes[], organization?}]`, reread when it changes',
    unset:
      'a development key with every scope in `<data>/dev-api-key`, not if NODE_ENV is `production`; required in the cluster profile',
  }),
  signingKeys: filePath({
    name: 'CREDENCE_SIGNING_KEYS',
    description: 'JWK set with the private signing keys (Ed25519), created if absent',
    unset: '`<data>/signing-keys.json`; required in the cluster profile, the same file for all processes',
  }),
  logKey: filePath({
    name: 'CREDENCE_LOG_KEY',
    description: 'JWK set with the private key (Ed25519) that signs checkpoints of the log; without one, none is made',
    unset: '`<data>/log-key.json`; better a file that no backup of the data contains',
  }),
  voucherKeys: filePath({
    name: 'CREDENCE_VOUCHER_KEYS',
    description: 'JWK set with the private keys (secp256k1) that sign vouchers, created if absent',
    unset:
      '`<data>/voucher-keys.json`; the cluster profile issues no vouchers without this file, which all processes share',
  }),
  logLevel: oneOf(LOG_LEVELS, {
    name: 'CREDENCE_LOG_LEVEL',
    description: `Least severe level to log: ${LOG_LEVELS.join(', ')}; requests are logged at debug`,
    default: 'info',
  }),
  actor: optional((given) => ACTOR.test(given), {
    name: 'CREDENCE_ACTOR',
    description:
      'Who runs commands of the CLI, recorded as `cli:<name>` with what they change: a claim that nobody checks',
    unset: 'the name of the user in the operating system',
    must: 'have 1 to 64 letters, digits or ._-',
  }),
  rpc: {
    name: 'CREDENCE_RPC_<chainId>',
    description:
      'JSON-RPC endpoint of an EVM chain, such as `CREDENCE_RPC_137`: for contract wallets, histories and vouchers on that chain',
    unset: 'contract wallets of that chain cannot sign in, its histories are not read, and no voucher is issued for it',
    must: 'be an http or https URL',
    family: /^CREDENCE_RPC_([1-9]\d{0,14})$/,
    secret: true,
    read: (given: string) => (isHttpUrl(given, { allow_protocol_relative_urls: false }) ? given : undefined),
  },
  chainContracts: filePath({
    name: 'CREDENCE_CHAIN_CONTRACTS',
    description:
      'JSON file `{"<chain id>": [{address, protocol, attesters?}]}`: contracts whose events count for linked wallets',
    unset: 'the list in `src/features/ingestion/chain-events.ts`',
  }),
  openTelemetry: {
    name: 'OTEL_*',
    description:
      'The standard variables of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`: see [tracing](monitoring.md#tracing)',
    unset: 'no tracing',
    must: 'be a text',
    family: /^OTEL_(\w+)$/,
    secret: true,
    read: (given: string) => given,
  },
};

const DECLARED = Object.entries<Variable<unknown>>(VARIABLES);
type ValueOf<V> = V extends { family: RegExp } ? ReadonlyMap<string, string> : V extends Variable<infer T> ? T : never;
/** A class whose instances have a property for each variable. */
const Values = class {} as new () => { readonly [P in keyof typeof VARIABLES]: ValueOf<(typeof VARIABLES)[P]> };

/** What an operator has set. Read once at boot by `loadConfig`; never read `process.env` elsewhere. */
export class Config extends Values {
  has(role: Role): boolean {
    return this.roles.includes(role);
  }

  /** Absolute path of a file in the data folder. */
  inData(file: string): string {
    return join(resolve(this.data), file);
  }
}

/**
 * Reads and checks the environment. An empty variable counts as unset.
 * @throws ConfigError naming the first unknown variable or invalid value
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const isKnown = (name: string) =>
    DECLARED.some(([, { name: own, family }]) => (family ? family.test(name) : own === name));
  const unknown = Object.keys(env).find((name) => name.startsWith('CREDENCE_') && !isKnown(name));
  if (unknown) {
    const names = DECLARED.map(([, { name }]) => name);
    // With more of what follows the prefix changed, it is probably no misspelling.
    const edits = Math.min(3, Math.floor((unknown.length - 'CREDENCE_'.length) / 3));
    const similar = similarName(unknown, names, edits);
    const hint = similar === undefined ? 'docs/configuration.md lists all variables.' : `did you mean ${similar}?`;
    throw new ConfigError(`${unknown} is not a variable of Credence; ${hint}`);
  }

  const values: Record<string, unknown> = {};
  for (const [property, { name, must, secret, family, read, default: initial }] of DECLARED) {
    if (family) {
      const names = Object.keys(env).filter((each) => family.test(each) && env[each]);
      const texts = new Map(names.map((each) => [family.exec(each)![1]!, env[each]!]));
      const isWrong = [...texts.values()].some((given) => read(given) === undefined);
      if (isWrong) throw new ConfigError(`${names.join(', ')} must ${must}.`);
      values[property] = texts;
      continue;
    }
    const given = env[name] || initial;
    if (given === undefined) continue;
    values[property] = read(given);
    if (values[property] === undefined) {
      throw new ConfigError(`${name} must ${must}${secret ? '' : `, not "${given}"`}.`);
    }
  }
  const config = Object.assign(new Config(), values);
  if (config.profile === 'embedded' && config.roles.length < ROLES.length) {
    throw new ConfigError(
      'CREDENCE_ROLES must be absent or name both roles in the embedded profile, where one process owns CREDENCE_DATA: the cluster profile divides them among processes.',
    );
  }
  if (config.profile === 'cluster') {
    for (const [name, value] of [
      ['EVENTSTORE_URL', config.eventStoreUrl],
      ['CREDENCE_DATABASE_URL', config.databaseUrl],
      ['REDIS_URL', config.redisUrl],
    ]) {
      if (value === undefined) throw new ConfigError(`The cluster profile requires ${name}.`);
    }
  }
  return config;
}

/** The table of all variables for docs/configuration.md. */
export function configurationTable(): string {
  const rows = DECLARED.map(
    ([, each]) => `| \`${each.name}\` | ${each.unset ?? `\`${each.default}\``} | ${each.description} |`,
  );
  return ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
}
