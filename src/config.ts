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
  Max,
  Min,
  ArrayNotEmpty,
  validateSync,
} from 'class-validator';

/** A configuration that cannot be used. The message is one sentence for the operator; the boot stops with it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface Declared {
  name: string;
  description: string;
  /** Ends the sentence "<name> must …". */
  must: string;
  /** As an operator would write it; absent when unset has a meaning of its own (see `unset`). */
  default?: string;
  /** What an unset variable means, where there is no plain default. */
  unset?: string;
}

const variables: { property: string; declared: Declared }[] = [];

/** Declares an environment variable once: its validation, its sentence in an error and its row in the README. */
function Variable(declared: Declared): PropertyDecorator {
  return (_target, property) => void variables.push({ property: String(property), declared });
}

const AsInteger = () => Transform(({ value }) => (/^\d{1,15}$/.test(value) ? Number(value) : value));
const AsList = () =>
  Transform(({ value }) => [
    ...new Set(
      String(value)
        .split(',')
        .map((item) => item.trim()),
    ),
  ]);

export const MODULES = ['relay', 'disc', 'credonations', 'organizations', 'identity', 'policies', 'trove'] as const;
export type ModuleName = (typeof MODULES)[number];
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything an operator can set. Read once at boot by `loadConfig`; never read `process.env` elsewhere. */
export class Config {
  @Variable({
    name: 'CREDENCE_HOST',
    description: 'Address to listen on',
    default: '127.0.0.1',
    must: 'be a host name or an address',
  })
  @IsString()
  @Length(1, 255)
  readonly host: string;

  @Variable({
    name: 'CREDENCE_PORT',
    description: 'Port to listen on; 0 takes any free one and prints it',
    default: '3000',
    must: 'be an integer from 0 to 65535',
  })
  @AsInteger()
  @IsInt()
  @Min(0)
  @Max(65535)
  readonly port: number;

  @Variable({
    name: 'CREDENCE_DATA',
    description: 'Folder of the log, the read models and the generated keys',
    default: './data',
    must: 'be the path of a folder',
  })
  @IsString()
  @Length(1, 4096)
  readonly data: string;

  @Variable({
    name: 'CREDENCE_PROFILE',
    description: '`embedded`: one process, everything in `CREDENCE_DATA`',
    default: 'embedded',
    must: 'be "embedded", the only profile of this version',
  })
  @IsIn(['embedded'])
  readonly profile: 'embedded';

  @Variable({
    name: 'CREDENCE_MODULES',
    description: `Modules to serve, separated by commas, of ${MODULES.join(', ')}`,
    default: MODULES.join(','),
    must: `be a comma separated list of ${MODULES.join(', ')}`,
  })
  @AsList()
  @ArrayNotEmpty()
  @IsIn(MODULES, { each: true })
  readonly modules: readonly ModuleName[];

  @Variable({
    name: 'CREDENCE_PUBLIC_URL',
    description: 'Address under which clients reach the service; the issuer of its proofs',
    unset: '`http://<host>:<port>`',
    must: 'be an http or https URL without a query',
  })
  @IsOptional()
  @IsUrl({ protocols: ['http', 'https'], require_protocol: true, require_tld: false, allow_query_components: false })
  readonly publicUrl?: string;

  @Variable({
    name: 'CREDENCE_RATE_LIMIT',
    description: 'Requests a minute and client address on public routes; 0 = no limit',
    default: '600',
    must: 'be an integer from 0 to 1000000000',
  })
  @AsInteger()
  @IsInt()
  @Min(0)
  @Max(1_000_000_000)
  readonly rateLimit: number;

  @Variable({
    name: 'CREDENCE_TRUST_PROXY',
    description: 'Believe the client address in X-Forwarded-For; only behind a proxy that sets it',
    default: 'off',
    must: 'be "on" or "off"',
  })
  @Transform(({ value }) => (value === 'on' ? true : value === 'off' ? false : value))
  @IsIn([true, false])
  readonly trustProxy: boolean;

  @Variable({
    name: 'CREDENCE_API_KEYS',
    description: 'JSON file `[{id, sha256, scopes[], organization?}]`, reread when it changes',
    unset: 'a development key with every scope in `<data>/dev-api-key`',
    must: 'be the path of a file',
  })
  @IsOptional()
  @IsString()
  @Length(1, 4096)
  readonly apiKeys?: string;

  @Variable({
    name: 'CREDENCE_SIGNING_KEYS',
    description: 'JWK set with the private signing keys (Ed25519), created if absent',
    unset: '`<data>/signing-keys.json`',
    must: 'be the path of a file',
  })
  @IsOptional()
  @IsString()
  @Length(1, 4096)
  readonly signingKeys?: string;

  @Variable({
    name: 'CREDENCE_LOG_LEVEL',
    description: `Least severe level to log, of ${LOG_LEVELS.join(', ')}; request lines are at debug`,
    default: 'info',
    must: `be one of ${LOG_LEVELS.join(', ')}`,
  })
  @IsIn(LOG_LEVELS)
  readonly logLevel: LogLevel;

  /** Absolute path of a file in the data folder. */
  inData(file: string): string {
    return join(resolve(this.data), file);
  }
}

/**
 * Reads and checks the environment. An empty variable counts as unset.
 * @throws ConfigError naming the first variable that is unknown or has a bad value
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>> = process.env): Config {
  const known = variables.map(({ declared }) => declared.name);
  const unknown = Object.keys(env).find((name) => name.startsWith('CREDENCE_') && !known.includes(name));
  if (unknown) throw new ConfigError(`${unknown} is not a variable of Credence; there are ${known.join(', ')}.`);

  const values: Record<string, string> = {};
  for (const { property, declared } of variables) {
    const value = env[declared.name] || declared.default;
    if (value !== undefined) values[property] = value;
  }
  const config = plainToInstance(Config, values);
  const [wrong] = validateSync(config);
  if (wrong) {
    const { declared } = variables.find(({ property }) => property === wrong.property)!;
    throw new ConfigError(`${declared.name} must ${declared.must}, not "${values[wrong.property]}".`);
  }
  return config;
}

/** The table of all variables for the README, in Markdown. */
export function configurationTable(): string {
  const rows = variables.map(({ declared: d }) => {
    const value = d.unset ?? (d.default === undefined ? '' : `\`${d.default}\``);
    return `| \`${d.name}\` | ${value} | ${d.description} |`;
  });
  return ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
}
