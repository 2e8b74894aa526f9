import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../kernel/clock.js';
import { type Config, ConfigError } from '../kernel/config.js';
import { sha256Hex } from '../kernel/hash.js';
import type { Logger } from '../kernel/logger.js';
import { SHA256_HEX, TRIS_ID } from '../kernel/identifiers.js';
import { type Scope, SCOPES, type Caller } from './caller.js';
import { isObject } from '../kernel/json.js';
import { personalDataIn } from '../kernel/personal-data.js';
import { hintOf, Problem } from '../kernel/problems.js';
import { FileWatch, createFile, exclusively, readJsonFile, replaceFile } from './secret-file.js';

/**
 * API keys. Only the SHA-256 of a key is stored. Keys are 256 random bits, so a plain digest cannot be searched, and
 * the timing of a look-up by digest reveals nothing about a key.
 *
 * They come from the file CREDENCE_API_KEYS alone if it is set. Otherwise from `<data>/api-keys.json` if it exists
 * (`credence keys create` creates it), plus, unless NODE_ENV is `production`, the development key in `<data>/dev-api-key`
 * with every scope.
 */
export interface ApiKeyRecord {
  /** Events record it as the actor `key:<id>`. */
  id: string;
  /** SHA-256 of the key, lower-case hex. */
  sha256: string;
  scopes: Scope[];
  /** TRIS id the key is bound to. */
  organization?: string;
}

/** A key that is accepted, without its digest. */
export interface ListedApiKey extends Omit<ApiKeyRecord, 'sha256'> {
  isDevelopment: boolean;
}

export const KEY_ID = /^[A-Za-z0-9._-]{1,64}$/;
/** Of `KEY_ID`, those of new keys. A browser takes `.` and `..` in a path for folders, and could not delete such a key. */
export const NEW_KEY_ID = /^\.{0,63}[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;
/** `NEW_KEY_ID` in words. */
export const NEW_KEY_ID_FORM = '1 to 64 letters, digits or ._-, and not only dots';
export const DEVELOPMENT_ID = 'dev';
/** Who changed the file, where that is not known. */
const LOADED = 'key-file';
const RETRY_MS = 1_000;

/** @returns which of the keys are accepted */
type KeyCheck = (keys: readonly ApiKeyRecord[], by: string) => Promise<readonly ApiKeyRecord[]>;

const generateKey = (): string => `credence_${randomBytes(32).toString('base64url')}`;
const GENERATED_KEY = /^credence_[\w-]{43}$/;

export class ApiKeys {
  /** Those of accepted keys, by digest. */
  private callers = new Map<string, Caller>();
  private readonly file: FileWatch;
  /** As the file says, including those that are not accepted. */
  private records: readonly ApiKeyRecord[] = [];
  private check: KeyCheck | undefined;
  /** Ends once all keys that were loaded so far are checked. */
  private checked: Promise<void> = Promise.resolve();
  /** The development key, if this boot generated it: it is printed once. */
  readonly createdDevelopmentKey: string | undefined;
  private readonly developmentDigest: string | undefined;

  /** @throws ConfigError when the keys file is missing (where it is configured) or not as described */
  constructor(
    private readonly config: Config,
    private readonly logger: Logger,
    clock: Clock = Date.now,
  ) {
    if (config.apiKeys === undefined) {
      if (config.profile === 'cluster') {
        throw new ConfigError(
          'The cluster profile requires CREDENCE_API_KEYS; `credence keys create` creates the file.',
        );
      }
      if (hasDevelopmentKey(config)) {
        const file = config.inData('dev-api-key');
        const created = !existsSync(file) && createFile(file, generateKey());
        const key = readDevelopmentKey(file);
        this.developmentDigest = sha256Hex(key);
        this.createdDevelopmentKey = created ? key : undefined;
      }
    } else if (!statSync(config.apiKeys, { throwIfNoEntry: false })) {
      throw new ConfigError(`CREDENCE_API_KEYS names ${config.apiKeys}, which does not exist.`);
    }
    this.file = new FileWatch(keysFile(config), clock);
    this.load();
  }

  /** Has keys checked before they are accepted: those of now, and whatever the file contains later. */
  async checkBy(check: KeyCheck): Promise<void> {
    this.check = check;
    this.adopt(await check(this.records, LOADED));
  }

  /** Takes over what has changed in the file. */
  look(): void {
    if (this.file.changed()) this.reload();
  }

  /** The caller of a key, or undefined if the key is unknown. */
  find(key: string): Caller | undefined {
    this.look();
    return this.callers.get(sha256Hex(key));
  }

  /** Whether a key that was found is still accepted, for the same: for what does not end with its request. */
  accepts(caller: Caller): boolean {
    this.look();
    return this.callers.get(caller.idempotencyScope) === caller;
  }

  /** The keys, as the file said when it was read last. */
  list(): ListedApiKey[] {
    return acceptedKeys(this.records, this.developmentDigest !== undefined);
  }

  /** Why this process must not change the keys; null if it may. One sentence. */
  readOnly(): string | null {
    const file = keysFile(this.config);
    if (this.config.profile === 'cluster') {
      return `All processes share ${file}: change it where it is kept, with \`credence keys\`.`;
    }
    try {
      accessSync(dirname(file), constants.W_OK);
      return null;
    } catch (error) {
      return unwritable(file, error);
    }
  }

  /**
   * Adds a key, which this process accepts at once, and returns the key itself.
   * @param by in whose name
   * @param permit called as soon as no other process can change the keys: throws unless the change is still permitted
   * @throws Problem key_conflict, keys_read_only
   */
  async create(record: Omit<ApiKeyRecord, 'sha256'>, by: string, permit: () => void): Promise<string> {
    const key = await this.change(by, permit, () => {
      // The id of the development key is taken also where there is none.
      if (record.id === DEVELOPMENT_ID || this.list().some(({ id }) => id === record.id)) {
        throw new Problem('key_conflict', `A key with the id "${record.id}" exists already: choose another id.`);
      }
      return addKey(this.config, record);
    });
    await this.checked;
    return key;
  }

  /**
   * Removes a key, which this process refuses at once.
   * @param scopes those that the key may have at most
   * @param by and `permit` as for `create`
   * @throws Problem key_not_found, forbidden, key_in_use, keys_read_only
   */
  delete(id: string, scopes: ReadonlySet<Scope>, by: string, permit: () => void): Promise<void> {
    return this.change(by, permit, () => {
      const keys = this.list();
      const key = keys.find((candidate) => candidate.id === id);
      if (!key) throw new Problem('key_not_found', `There is no key ${id}.`);
      if (key.isDevelopment) {
        const detail = 'The development key cannot be deleted here. With NODE_ENV=production there is none.';
        throw new Problem('key_in_use', detail);
      }
      const more = key.scopes.filter((scope) => scope !== 'reads' && !scopes.has(scope));
      if (more.length > 0) {
        const detail = `The key of this request lacks ${more.join(', ')} and cannot delete ${id}, which has it.`;
        throw new Problem('forbidden', detail);
      }
      const others = keys.filter((other) => other !== key && other.organization === undefined);
      if (key.scopes.includes('ops') && !others.some(({ scopes }) => scopes.includes('ops'))) {
        throw new Problem('key_in_use', `${id} is the last key with the scope ops: create another one first.`);
      }
      removeKey(this.config, id);
    });
  }

  private async change<T>(by: string, permit: () => void, work: () => T): Promise<T> {
    const why = this.readOnly();
    if (why !== null) throw new Problem('keys_read_only', why);
    const file = keysFile(this.config);
    const locked = () => {
      this.load();
      permit();
      return work();
    };
    const result = await exclusively(file, locked).catch((error: unknown) => {
      if (error instanceof ConfigError) throw new Problem('keys_read_only', error.message);
      if ((error as NodeJS.ErrnoException).code?.startsWith('E')) {
        throw new Problem('keys_read_only', unwritable(file, error));
      }
      throw error;
    });
    this.load(by);
    return result;
  }

  private reload(): void {
    try {
      this.load();
      void this.checked.then(() => this.logger.info('API keys reloaded', { keys: this.callers.size }));
    } catch (error) {
      this.logger.error('the API keys file cannot be used; the keys read before stay valid', {
        detail: (error as Error).message,
      });
    }
  }

  /** Takes over what is in the file. Keys that this process does not accept yet wait until they are checked. */
  private load(by = LOADED): void {
    const records = this.config.apiKeys === undefined ? storedKeys(this.config) : listKeys(this.config);
    this.records = records;
    const { check } = this;
    this.adopt(check ? records.filter(({ sha256 }) => this.callers.has(sha256)) : records);
    if (!check) return;
    const work = this.checked
      .then(() => check(records, by))
      .then((accepted) => {
        if (this.records === records) this.adopt(accepted);
      });
    this.checked = work.catch((error: unknown) => {
      this.logger.warn('the API keys file cannot be checked against the log; new keys are not accepted yet', {
        detail: (error as Error).message,
      });
      setTimeout(() => this.records === records && this.reload(), RETRY_MS).unref();
    });
  }

  private adopt(records: readonly ApiKeyRecord[]): void {
    const callers = new Map<string, Caller>();
    const digest = this.developmentDigest;
    const development: ApiKeyRecord[] = digest ? [{ id: DEVELOPMENT_ID, sha256: digest, scopes: [...SCOPES] }] : [];
    for (const { id, sha256, scopes, organization = null } of [...development, ...records]) {
      // A key of an organization must not affect others, so `ops` has no effect on it.
      const opening = organization === null ? scopes : scopes.filter((scope) => scope !== 'ops');
      const caller = { keyId: id, idempotencyScope: sha256, scopes: new Set(opening), organization, session: null };
      const known = this.callers.get(sha256);
      callers.set(sha256, known && isDeepStrictEqual(known, caller) ? known : caller);
    }
    this.callers = callers;
  }
}

/** Not in production, where the data folder must not contain an unrequested key with every scope. */
export function hasDevelopmentKey({ apiKeys }: Config): boolean {
  return apiKeys === undefined && process.env['NODE_ENV'] !== 'production';
}

/** The file `credence keys` works on. */
export const keysFile = (config: Config): string => config.apiKeys ?? config.inData('api-keys.json');

/** @throws ConfigError naming the file and the entry that is wrong */
export function listKeys(config: Config): ApiKeyRecord[] {
  const file = keysFile(config);
  const entries = readJsonFile(file);
  if (!Array.isArray(entries)) throw new ConfigError(`${file} must contain a JSON array of keys.`);
  const ids = new Set<string>();
  const digests = new Set<string>();
  return entries.map((entry: unknown, index) => {
    const wrong = (what: string) => new ConfigError(`${file}: entry ${index + 1} ${what}.`);
    if (!isObject(entry)) throw wrong('must be an object {id, sha256, scopes, organization?}');
    const { id, sha256, scopes, organization, ...others } = entry;
    const unknown = Object.keys(others)[0];
    if (unknown !== undefined) throw wrong(`has the unknown member "${unknown}"`);
    if (typeof id !== 'string' || !KEY_ID.test(id)) throw wrong('must have an id of 1 to 64 letters, digits or ._-');
    if (ids.has(id)) throw wrong(`has the same id "${id}" as another entry`);
    if (typeof sha256 !== 'string' || !SHA256_HEX.test(sha256)) {
      throw wrong('must have sha256, the digest of the key as 64 lower-case hexadecimal digits');
    }
    if (digests.has(sha256)) throw wrong('has the same sha256 as another entry');
    if (!Array.isArray(scopes) || scopes.length === 0 || !scopes.every(isScope)) {
      throw wrong(`must have scopes, a list of ${SCOPES.join(', ')}`);
    }
    if (organization !== undefined && !(typeof organization === 'string' && TRIS_ID.test(organization))) {
      throw wrong('has an organization that is not a TRIS id');
    }
    ids.add(id);
    digests.add(sha256);
    return { id, sha256, scopes, ...(organization !== undefined && { organization }) };
  });
}

/** The stored keys; none if the file does not exist. @throws ConfigError as `listKeys` */
export const storedKeys = (config: Config): ApiKeyRecord[] =>
  statSync(keysFile(config), { throwIfNoEntry: false }) ? listKeys(config) : [];

/** The keys that a server with these stored keys accepts. */
export function acceptedKeys(stored: readonly ApiKeyRecord[], withDevelopmentKey: boolean): ListedApiKey[] {
  const keys = stored.map(({ sha256: _digest, ...key }) => ({ ...key, isDevelopment: false }));
  return withDevelopmentKey ? [{ id: DEVELOPMENT_ID, scopes: [...SCOPES], isDevelopment: true }, ...keys] : keys;
}

const isScope = (scope: unknown): scope is Scope => (SCOPES as readonly unknown[]).includes(scope);

/**
 * Adds a key to the file and returns the key itself, which is stored nowhere.
 * @throws ConfigError if the id exists or the file is not as described at `listKeys`
 */
export function createKey(config: Config, record: Omit<ApiKeyRecord, 'sha256'>): Promise<string> {
  return exclusively(keysFile(config), () => addKey(config, record));
}

function addKey(config: Config, record: Omit<ApiKeyRecord, 'sha256'>): string {
  const keys = storedKeys(config);
  if (!KEY_ID.test(record.id) || !NEW_KEY_ID.test(record.id))
    throw new ConfigError(`The id must be ${NEW_KEY_ID_FORM}.`);
  if (record.id === DEVELOPMENT_ID || keys.some(({ id }) => id === record.id)) {
    throw new ConfigError(`A key with the id "${record.id}" already exists.`);
  }
  if (record.scopes.length === 0 || !record.scopes.every(isScope)) {
    throw new ConfigError(`The scopes must be some of ${SCOPES.join(', ')}.`);
  }
  if (record.organization !== undefined && !TRIS_ID.test(record.organization)) {
    throw new ConfigError(`"${record.organization}" is not a TRIS id.`);
  }
  if (record.organization !== undefined && personalDataIn(record.organization)) {
    throw new ConfigError(`"${record.organization}" contains an e-mail address, and the log records it permanently.`);
  }
  const hint = record.organization && hintOf(record.organization);
  if (hint) throw new ConfigError(`No organization can have the id ${record.organization}.${hint}`);
  if (record.organization !== undefined && record.scopes.includes('ops')) {
    throw new ConfigError('The scope ops is for keys that are bound to no organization.');
  }
  const key = generateKey();
  writeKeys(config, [...keys, { ...record, sha256: sha256Hex(key) }]);
  return key;
}

/** Removes a key; running servers notice within a second. @returns false when there is no key with this id */
export function revokeKey(config: Config, id: string): Promise<boolean> {
  return exclusively(keysFile(config), () => removeKey(config, id));
}

function removeKey(config: Config, id: string): boolean {
  const keys = storedKeys(config);
  const kept = keys.filter((key) => key.id !== id);
  if (kept.length === keys.length) return false;
  writeKeys(config, kept);
  return true;
}

const writeKeys = (config: Config, keys: ApiKeyRecord[]): void =>
  replaceFile(keysFile(config), `${JSON.stringify(keys, null, 2)}\n`);

function unwritable(file: string, error: unknown): string {
  return `${file} cannot be written: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}.`;
}

/** @throws ConfigError for what is no key that the service has made: a part of one would be easy to guess */
export function readDevelopmentKey(file: string): string {
  const key = statSync(file).isFile() ? readFileSync(file, 'utf8').trim() : '';
  if (GENERATED_KEY.test(key)) return key;
  throw new ConfigError(`${file} contains no key; delete it, and the next start creates a new development key.`);
}
