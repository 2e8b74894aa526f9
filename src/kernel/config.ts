import 'reflect-metadata';
import { join, resolve } from 'node:path';
import { plainToInstance, Transform } from 'class-transformer';
import {
  IsIn,
  IsInt,
  IsOptional,
  IsString,
  IsUrl,
  Length,
  Matches,
  Max,
  Min,
  ArrayNotEmpty,
  validateSync,
} from 'class-validator';
import { similarName } from './misspelling.js';

/** The configuration is invalid. The message is one sentence for the operator; the boot stops with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface Declared {
  name: string;
  description: string;
  /** Ends the sentence "<name> must …". */
  must: string;
  /** The default as an operator would write it; absent when an unset variable has its own meaning (see `unset`). */
  default?: string;
  /** What an unset variable means, if there is no plain default. */
  unset?: string;
  /** May hold a password: its value is never repeated. */
  secret?: true;
  /** For a family of variables: the pattern of their names. Its first group is the key in the property's record. */
  family?: RegExp;
}

const variables: { property: string; declared: Declared }[] = [];

/** Declares an environment variable: its validation, its error message and its row in docs/configuration.md. */
function Variable(declared: Declared): PropertyDecorator {
  return (_target, property) => void variables.push({ property: String(property), declared });
}

type Described = Omit<Declared, 'must'>;

/** As Nest's `applyDecorators`, which commands that need nothing else of Nest would load for this alone. */
const all =
  (...decorators: PropertyDecorator[]): PropertyDecorator =>
  (target, property) =>
    decorators.forEach((decorate) => decorate(target, property));

const Whole = (min: number, max: number, declared: Described): PropertyDecorator =>
  all(
    Variable({ ...declared, must: `be an integer from ${min} to ${max}` }),
    Transform(({ value }) => (/^\d{1,15}$/.test(value) ? Number(value) : value)),
    IsInt(),
    Min(min),
    Max(max),
  );
/** A bound for each organization, or key without one. */
const Bound = (name: string, initial: string, what: string): PropertyDecorator =>
  Whole(0, 1e12, { name: `CREDENCE_ORG_${name}`, description: `${what}; 0 = no limit`, default: initial });
const Switch = (declared: Described): PropertyDecorator =>
  all(
    Variable({ ...declared, must: 'be "on" or "off"' }),
    Transform(({ value }) => (value === 'on' ? true : value === 'off' ? false : value)),
    IsIn([true, false]),
  );
const OneOf = (values: readonly string[], declared: Described): PropertyDecorator =>
  all(Variable({ ...declared, must: `be one of ${values.join(', ')}` }), IsIn(values));
const ListOf = (values: readonly string[], declared: Described): PropertyDecorator =>
  all(
    Variable({ ...declared, must: `be a comma-separated list of ${values.join(', ')}` }),
    Transform(({ value }) => [...new Set((value as string).split(',').map((item) => item.trim()))]),
    ArrayNotEmpty(),
    IsIn(values, { each: true }),
  );
const Text = (most: number, declared: Declared): PropertyDecorator =>
  all(Variable(declared), IsString(), Length(1, most));
const FilePath = (declared: Described): PropertyDecorator =>
  all(Text(4096, { ...declared, must: 'be the path of a file' }), IsOptional());

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
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything an operator can set. Read once at boot by `loadConfig`; never read `process.env` elsewhere. */
export class Config {
  @Text(255, {
    name: 'CREDENCE_HOST',
    description: 'Address to listen on; a process that is only a worker serves health and metrics on it',
    default: '127.0.0.1',
    must: 'be a host name or an address',
  })
  readonly host: string;

  @Whole(0, 65535, {
    name: 'CREDENCE_PORT',
    description: 'Port to listen on; 0 takes any free port and prints it',
    default: '3000',
  })
  readonly port: number;

  @Text(4096, {
    name: 'CREDENCE_DATA',
    description:
      'Folder of the log, the read models and the generated keys; in the cluster profile it contains only the marker of the log, and temporary files of builds',
    default: './data',
    must: 'be the path of a folder',
  })
  readonly data: string;

  @OneOf(PROFILES, {
    name: 'CREDENCE_PROFILE',
    description:
      '`embedded`: everything in `CREDENCE_DATA`; `cluster`: EventStoreDB, PostgreSQL, and Redis with BullMQ',
    default: 'embedded',
  })
  readonly profile: Profile;

  @ListOf(ROLES, {
    name: 'CREDENCE_ROLES',
    description:
      'What this process does, as a comma-separated list: `api` answers requests, `worker` runs projections and jobs; the embedded profile does both',
    default: ROLES.join(','),
  })
  readonly roles: readonly Role[];

  @Variable({
    name: 'EVENTSTORE_URL',
    description: 'Connection string of EventStoreDB, for the cluster profile',
    unset: 'none',
    must: 'be a connection string such as esdb://host:2113?tls=true or kurrentdb://host:2113',
    secret: true,
  })
  @IsOptional()
  @Matches(/^[a-z+]+:\/\/\S+$/)
  readonly eventStoreUrl?: string;

  @Variable({
    name: 'REDIS_URL',
    description:
      'Address of Redis, for the cluster profile; several hosts mean a Redis Cluster, or Sentinels with `?sentinel=<name of the master>`',
    unset: 'none',
    must: 'have the form redis://[user:password@]host:port[,host:port][/database], or rediss:// for TLS',
    secret: true,
  })
  @IsOptional()
  @Matches(/^rediss?:\/\/\S+$/)
  readonly redisUrl?: string;

  @Variable({
    name: 'CREDENCE_DATABASE_URL',
    description:
      'Address of the PostgreSQL database with the read models, for the cluster profile; `?sslmode=verify-full` for TLS',
    unset: 'none',
    must: 'have the form postgres://user:password@host:port/database',
    secret: true,
  })
  @IsOptional()
  @Matches(/^postgres(ql)?:\/\/\S+$/)
  readonly databaseUrl?: string;

  @ListOf(MODULES, {
    name: 'CREDENCE_MODULES',
    description: `Modules to serve, as a comma-separated list of ${MODULES.join(', ')}`,
    default: MODULES.join(','),
  })
  readonly modules: readonly ModuleName[];

  @Variable({
    name: 'CREDENCE_PUBLIC_URL',
    description:
      'URL under which clients reach the service; the issuer of its proofs, and the site that wallets sign in to',
    unset: '`http://<host>:<port>`',
    must: 'be an http or https URL (RFC 3986) without user, password, query and fragment',
  })
  @IsOptional()
  // Without `@`, `?` and `#`; what RFC 3986 does not allow would break the messages that wallets sign (ERC-4361).
  @Matches(/^https?:\/\/[A-Za-z0-9.:[\]-]+(\/([A-Za-z0-9._~!$&'()*+,;=:/-]|%[0-9A-Fa-f]{2})*)?$/)
  @IsUrl({ protocols: ['http', 'https'], require_protocol: true, require_tld: false, allow_query_components: false })
  readonly publicUrl?: string;

  @OneOf(PUBLIC_READS, {
    name: 'CREDENCE_PUBLIC_READS',
    description:
      'Reads without a key: `all`, also the feed of changes; `scores`, all but the feed; `none`, only what verifies tokens and vouchers. A key of any scope reads all, a session what is about its own TRIS; private access policies always need the owner’s or an operator’s',
    default: 'scores',
  })
  readonly publicReads: PublicReads;

  @Switch({
    name: 'CREDENCE_CONSOLE',
    description: 'Serve the [console](console.md) at `/console`, if it has been built',
    default: 'on',
  })
  readonly console: boolean;

  @Whole(0, 1_000_000_000, {
    name: 'CREDENCE_RATE_LIMIT',
    description: 'Requests per minute and client address on public routes; 0 = no limit',
    default: '600',
  })
  readonly rateLimit: number;

  @Bound('ACTIONS_PER_DAY', '5000000', 'Actions that an organization, or a key without one, may relay on a day (UTC)')
  readonly actionsPerDay: number;

  @Bound('BYTES_PER_DAY', '1000000000', 'Bytes of these actions as JSON')
  readonly bytesPerDay: number;

  @Bound('JOB_RESULTS', '50', 'Jobs of an organization, or a key without one, whose lines are kept')
  readonly jobResults: number;

  @Bound('JOB_BYTES', '209715200', 'Bytes of these lines')
  readonly jobBytes: number;

  @Bound('WAITING_DELIVERIES', '10000', 'Deliveries of all webhooks of an organization that may wait')
  readonly waitingDeliveries: number;

  @Bound('DELIVERY_BYTES', '104857600', 'Bytes of their deliveries that wait or can be sent again')
  readonly deliveryBytes: number;

  @Whole(0, 36_500, {
    name: 'CREDENCE_DISPUTE_DAYS',
    description:
      'Days after which the dispute of an action lapses that nobody has answered: the action is withdrawn; 0 = never',
    default: '0',
  })
  readonly disputeDays: number;

  @Whole(1, 1_000_000, {
    name: 'CREDENCE_MAX_STALENESS_SECONDS',
    description:
      'Seconds for which the read models may be behind the log before access checks return 503 `projection_behind`, and reads say so in the header `Credence-Lag`',
    default: '10',
  })
  readonly maxStalenessSeconds: number;

  @Whole(1, 100, {
    name: 'CREDENCE_RETAINED_GENERATIONS',
    description:
      'Number of generations of read models that are kept beside those that serve and those that a rollback would serve; a worker drops the oldest of the others',
    default: '3',
  })
  readonly retainedGenerations: number;

  @Whole(0, 1_000_000, {
    name: 'CREDENCE_FREEZE_MINUTES',
    description:
      'Minutes for which a worker keeps a generation up to date that does not serve; after that, a swap or rollback to it catches up first; 0 = always up to date',
    default: '60',
  })
  readonly freezeMinutes: number;

  @Switch({
    name: 'CREDENCE_TRUST_PROXY',
    description: 'Trust the client address in X-Forwarded-For; use it only behind a proxy that sets this header',
    default: 'off',
  })
  readonly trustProxy: boolean;

  @Switch({
    name: 'CREDENCE_WEBHOOK_LOOPBACK',
    description: 'Let webhooks lead to this machine, also by http: for development',
    default: 'off',
  })
  readonly webhookLoopback: boolean;

  @Variable({
    name: 'CREDENCE_WEBHOOK_PORTS',
    description: 'Ports to which webhooks may lead, as a comma-separated list; on this machine all',
    default: '443',
    must: 'be a comma-separated list of ports',
  })
  @Transform(({ value }) => (value as string).split(','))
  @Matches(/^[1-9]\d{0,4}$/, { each: true })
  readonly webhookPorts: readonly string[];

  @FilePath({
    name: 'CREDENCE_API_KEYS',
    description: 'JSON file `[{id, sha256, scopes[], organization?}]`, reread when it changes',
    unset:
      'a development key with every scope in `<data>/dev-api-key`, not if NODE_ENV is `production`; required in the cluster profile',
  })
  readonly apiKeys?: string;

  @FilePath({
    name: 'CREDENCE_SIGNING_KEYS',
    description: 'JWK set with the private signing keys (Ed25519), created if absent',
    unset: '`<data>/signing-keys.json`; required in the cluster profile, the same file for all processes',
  })
  readonly signingKeys?: string;

  @FilePath({
    name: 'CREDENCE_LOG_KEY',
    description: 'JWK set with the private key (Ed25519) that signs checkpoints of the log; without one, none is made',
    unset: '`<data>/log-key.json`; better a file that no backup of the data contains',
  })
  readonly logKey?: string;

  @FilePath({
    name: 'CREDENCE_VOUCHER_KEYS',
    description: 'JWK set with the private keys (secp256k1) that sign vouchers, created if absent',
    unset:
      '`<data>/voucher-keys.json`; the cluster profile issues no vouchers without this file, which all processes share',
  })
  readonly voucherKeys?: string;

  @OneOf(LOG_LEVELS, {
    name: 'CREDENCE_LOG_LEVEL',
    description: `Least severe level to log: ${LOG_LEVELS.join(', ')}; requests are logged at debug`,
    default: 'info',
  })
  readonly logLevel: LogLevel;

  @Variable({
    name: 'CREDENCE_ACTOR',
    description:
      'Who runs commands of the CLI, recorded as `cli:<name>` with what they change: a claim that nobody checks',
    unset: 'the name of the user in the operating system',
    must: 'have 1 to 64 letters, digits or ._-',
  })
  @IsOptional()
  @Matches(ACTOR)
  readonly actor?: string;

  @Variable({
    name: 'CREDENCE_RPC_<chainId>',
    description:
      'JSON-RPC endpoint of an EVM chain, such as `CREDENCE_RPC_137`: for contract wallets, histories and vouchers on that chain',
    unset: 'contract wallets of that chain cannot sign in, its histories are not read, and no voucher is issued for it',
    must: 'be an http or https URL',
    family: /^CREDENCE_RPC_([1-9]\d{0,14})$/,
    secret: true,
  })
  @IsUrl(
    { protocols: ['http', 'https'], require_protocol: true, require_tld: false, allow_protocol_relative_urls: false },
    { each: true },
  )
  readonly rpc: ReadonlyMap<string, string>;

  @FilePath({
    name: 'CREDENCE_CHAIN_CONTRACTS',
    description:
      'JSON file `{"<chain id>": [{address, protocol, attesters?}]}`: contracts whose events count for linked wallets',
    unset: 'the list in `src/features/ingestion/chain-events.ts`',
  })
  readonly chainContracts?: string;

  @Variable({
    name: 'OTEL_*',
    description:
      'The standard variables of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`: see [tracing](monitoring.md#tracing)',
    unset: 'no tracing',
    must: 'be a text',
    family: /^OTEL_(\w+)$/,
    secret: true,
  })
  @IsString({ each: true })
  readonly openTelemetry: ReadonlyMap<string, string>;

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
    variables.some(({ declared: { name: own, family } }) => (family ? family.test(name) : own === name));
  const unknown = Object.keys(env).find((name) => name.startsWith('CREDENCE_') && !isKnown(name));
  if (unknown) {
    const names = variables.map(({ declared: { name } }) => name);
    // With more of what follows the prefix changed, it is probably no misspelling.
    const edits = Math.min(3, Math.floor((unknown.length - 'CREDENCE_'.length) / 3));
    const similar = similarName(unknown, names, edits);
    const hint = similar === undefined ? 'docs/configuration.md lists all variables.' : `did you mean ${similar}?`;
    throw new ConfigError(`${unknown} is not a variable of Credence; ${hint}`);
  }

  const values: Record<string, string> = {};
  const families: Record<string, Map<string, string>> = {};
  for (const { property, declared } of variables) {
    if (declared.family) families[property] = familyOf(declared.family, env);
    const value = env[declared.name] || declared.default;
    if (value !== undefined) values[property] = value;
  }
  const config = Object.assign(plainToInstance(Config, values), families);
  const [wrong] = validateSync(config);
  if (wrong) {
    const { declared } = variables.find(({ property }) => property === wrong.property)!;
    const name = declared.family ? namesOf(declared.family, env).join(', ') : declared.name;
    const found = declared.secret ? '' : `, not "${values[wrong.property]}"`;
    throw new ConfigError(`${name} must ${declared.must}${found}.`);
  }
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

function familyOf(family: RegExp, env: Readonly<Record<string, string | undefined>>): Map<string, string> {
  return new Map(namesOf(family, env).map((name) => [family.exec(name)![1]!, env[name]!]));
}

function namesOf(family: RegExp, env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(env).filter((name) => family.test(name) && env[name]);
}

/** The table of all variables for docs/configuration.md. */
export function configurationTable(): string {
  const rows = variables.map(({ declared: d }) => {
    const value = d.unset ?? (d.default === undefined ? '' : `\`${d.default}\``);
    return `| \`${d.name}\` | ${value} | ${d.description} |`;
  });
  return ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
}
