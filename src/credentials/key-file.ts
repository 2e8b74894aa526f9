import { hkdfSync, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Clock } from '../kernel/clock.js';
import { type Config, ConfigError } from '../kernel/config.js';
import { parseTimestamp } from '../kernel/identifiers.js';
import { FileWatch, createFile, exclusively, readJsonFile, replaceFile } from './secret-file.js';
import { type JsonObject, isObject } from '../kernel/json.js';
import type { Logger } from '../kernel/logger.js';

/** Files of private signing keys that rotate: JWK sets (RFC 7517) of any key type. */

export interface Key {
  /** The name of the key in tokens, in events and on the command line. */
  kid: string;
  /** Signs by the private part, which nothing else can read. Undefined: the file lacks it, the key is only published. */
  sign: unknown;
}

/** How the keys of one kind are created and read. */
export interface KeyKind<K extends Key> {
  /** Whether the file also contains a secret that all processes share (`KeyFile.sharedSecret`). */
  sharesSecret?: true;
  make(): JsonObject;
  /** @param wrong creates the error from a text such as "is not an Ed25519 key" */
  read(jwk: JsonObject, wrong: (what: string) => ConfigError): K;
}

/** The minimum time a new key is published before it signs: longer than clients may cache the old set. */
export const ANNOUNCED_MS = 10 * 60_000;
/** How long a key's last signature can be valid: the longest ttl of an access policy, plus a margin for clocks. */
export const LAST_TOKEN_MS = 86_400_000 + 60_000;

/** A key as an operator sees it. Times as RFC 3339. */
interface ListedKey {
  kid: string;
  /** `published`: the file has no private part of it, or it never signs. */
  status: 'next' | 'signing' | 'retired' | 'published';
  /** When it starts to sign; null: from the beginning, or never. */
  signs_from: string | null;
  /** When its last signature has expired; null: not retired. */
  prunable_from: string | null;
}

interface Turn<K> {
  key: K;
  /** ms since the epoch; −Infinity for a key without a start time. */
  signsFrom: number;
}

/** A key file. The command line changes it: each change is made under a lock and replaces the whole file. */
export class KeyFile<K extends Key> {
  constructor(
    readonly path: string,
    private readonly kind: KeyKind<K>,
  ) {}

  get exists(): boolean {
    return existsSync(this.path);
  }

  /** Creates the file with one new key that signs at once. @returns false if the file already exists */
  create(): boolean {
    return !this.exists && createFile(this.path, toText([this.kind.make()]));
  }

  /**
   * Creates the file unless it exists. In the cluster profile every process must publish the keys of all others, so none
   * may create its own.
   * @throws ConfigError
   */
  prepare({ profile }: Config, variable: string, command: string): void {
    if (profile === 'cluster' && !this.exists) {
      throw new ConfigError(`${variable} names ${this.path}, which does not exist; ${adviceToCreate(command)}.`);
    }
    this.create();
  }

  /** @throws ConfigError */
  list(now: number): ListedKey[] {
    return listed(this.read(), now);
  }

  /**
   * Adds a new key that signs from a time on; running servers publish it within a second.
   * @param delayMs from now; less than ANNOUNCED_MS makes signatures that verifiers with an older set refuse at first
   * @throws ConfigError when a next key is announced already
   */
  rotate(now: number, delayMs: number): Promise<{ kid: string; signs_from: number }> {
    return exclusively(this.path, () => {
      const next = this.list(now).find(({ status }) => status === 'next');
      if (next) throw new ConfigError(`The key ${next.kid} is already announced; it signs from ${next.signs_from}.`);
      const key = this.kind.make();
      const signs_from = now + delayMs;
      const stored = this.read().map(({ raw }) => raw);
      this.replace([...stored, { ...key, signs_from: new Date(signs_from).toISOString() }]);
      return { kid: key['kid'] as string, signs_from };
    });
  }

  /** Removes the retired keys whose last signature has expired, and returns their kids. */
  prune(now: number): Promise<string[]> {
    return exclusively(this.path, () => {
      const dead = this.list(now)
        .filter(({ prunable_from }) => prunable_from !== null && Date.parse(prunable_from) <= now)
        .map(({ kid }) => kid);
      const kept = this.read().filter(({ key }) => !dead.includes(key.kid));
      if (dead.length > 0) this.replace(kept.map(({ raw }) => raw));
      return dead;
    });
  }

  /**
   * Removes a key that may have leaked, and the shared secret with it: nothing that the key signed is accepted from
   * then on. If it was the signing key, a new key signs at once.
   * @param keepsFormer the secret was not seen by others: for a while it is still used beside the new one
   * @returns the kid of the new key; null if another key already signs
   * @throws ConfigError if there is no such key
   */
  revoke(kid: string, now: number, keepsFormer = false): Promise<string | null> {
    return exclusively(this.path, () => {
      const revoked = this.list(now).find((key) => key.kid === kid);
      if (!revoked) throw new ConfigError(`There is no key ${kid} in ${this.path}.`);
      const kept = this.read()
        .filter(({ key }) => key.kid !== kid)
        .map(({ raw }) => raw);
      const secret_since = new Date(now).toISOString();
      const secrets = {
        shared_secret: randomBytes(32).toString('base64url'),
        secret_since,
        ...(keepsFormer && { former_secret: Buffer.from(this.sharedSecret()).toString('base64url') }),
      };
      const made = revoked.status === 'signing' ? { ...this.kind.make(), signs_from: secret_since } : null;
      this.replace(made ? [...kept, made] : kept, secrets);
      return made && ((made as JsonObject)['kid'] as string);
    });
  }

  /**
   * 32 bytes that all processes with the file share: its member `shared_secret` or, in a file without one, a secret
   * derived from the first private key. The first change by a command writes the derived secret into the file, so that
   * it outlives that key.
   * @throws ConfigError
   */
  sharedSecret(): Uint8Array {
    const written = this.writtenSecret('shared_secret');
    if (written) return written;
    const { raw } = this.read().find(({ key }) => key.sign)!;
    return derive(Buffer.from(String(raw['d']), 'base64url'), 'shared secret');
  }

  /** When a revocation replaced the shared secret, ms, and the one before, if it may still be used; null: never. */
  formerSecret(): { endedAt: number; secret: Uint8Array | undefined } | null {
    const endedAt = Date.parse(String(this.set()['secret_since']));
    return isNaN(endedAt) ? null : { endedAt, secret: this.writtenSecret('former_secret') };
  }

  private writtenSecret(member: 'shared_secret' | 'former_secret'): Uint8Array | undefined {
    const written = this.set()[member];
    if (written === undefined) return undefined;
    const secret = Buffer.from(typeof written === 'string' ? written : '', 'base64url');
    if (secret.length !== 32) throw new ConfigError(`${this.path}: ${member} must be 32 bytes in base64url.`);
    return secret;
  }

  /** @param secrets default: the present ones */
  private replace(keys: readonly object[], secrets?: object): void {
    const present = () => {
      const { secret_since, former_secret } = this.set();
      return { shared_secret: Buffer.from(this.sharedSecret()).toString('base64url'), secret_since, former_secret };
    };
    replaceFile(this.path, toText(keys, this.kind.sharesSecret && (secrets ?? present())));
  }

  private set(): JsonObject & { keys: unknown[] } {
    const set = readJsonFile(this.path);
    if (!isObject(set) || !Array.isArray(set.keys) || set.keys.length === 0) {
      throw new ConfigError(`${this.path} must be a JWK set: {"keys": [...]} with at least one key.`);
    }
    return set as JsonObject & { keys: unknown[] };
  }

  /** @throws ConfigError */
  read(): (Turn<K> & { raw: JsonObject })[] {
    const turns = this.set().keys.map((raw: unknown, index) => {
      const wrong = (what: string) => new ConfigError(`${this.path}: key ${index + 1} ${what}.`);
      const jwk = isObject(raw) ? (raw as JsonObject) : {};
      const key = this.kind.read(jwk, wrong);
      if (jwk['kid'] !== undefined && jwk['kid'] !== key.kid) throw wrong('has a kid that does not match the key');
      const signsFrom = jwk['signs_from'] === undefined ? -Infinity : parseTimestamp(String(jwk['signs_from']));
      if (signsFrom === undefined) throw wrong('has a signs_from that is not a time');
      return { key, signsFrom, raw: jwk };
    });
    const kids = turns.map(({ key }) => key.kid);
    const twice = kids.find((kid, i) => kids.indexOf(kid) < i);
    if (twice !== undefined) throw new ConfigError(`${this.path} contains the key ${twice} twice.`);
    if (!turns.some(({ key }) => key.sign)) {
      throw new ConfigError(`${this.path} contains no private key to sign with.`);
    }
    return turns;
  }
}

/**
 * The keys of a file, reread when it changes. Among the keys with a private part, the one with the latest start time
 * (`signs_from`, our own member) that has passed signs; if no key has a start time, the first one signs. So a key can
 * be published before it signs and stay published after its last signature.
 */
export class KeyRing<K extends Key> {
  private all: Turn<K>[] = [];
  private turns: Turn<K>[] = [];
  private shared: Uint8Array | undefined;
  private former: ReturnType<KeyFile<K>['formerSecret']> = null;
  private readonly derived = new Map<string, Uint8Array>();
  private readonly watch: FileWatch;

  /** @throws ConfigError */
  constructor(
    private readonly file: KeyFile<K>,
    private readonly logger: Logger | undefined,
    private readonly clock: Clock,
  ) {
    this.watch = new FileWatch(file.path, clock);
    this.load();
  }

  /** All keys, in the order of the file. */
  get keys(): K[] {
    this.refresh();
    return this.all.map(({ key }) => key);
  }

  /** The key that signs now. */
  get current(): K {
    this.refresh();
    return signingAt(this.turns, this.clock()).key;
  }

  /** The key with this kid, if the file contains its private part, whether or not it signs now. */
  signer(kid: string): K | undefined {
    this.refresh();
    return this.all.find(({ key }) => key.kid === kid && key.sign)?.key;
  }

  /** Whether the file contains the private part of this key, also if it does not sign now. */
  signsWith(kid: string): boolean {
    return this.signer(kid) !== undefined;
  }

  /** Whether another key took over from this one before a time, ms. If so, a signature that claims that time is forged. */
  wasRetired(kid: string, at: number): boolean {
    this.refresh();
    const turn = this.turns.findIndex(({ key }) => key.kid === kid);
    const next = turn < 0 ? undefined : this.turns[turn + 1];
    return next !== undefined && next.signsFrom <= this.clock() && next.signsFrom < at;
  }

  /**
   * A key of 32 bytes for one purpose, the same in every process with the file (HKDF, RFC 5869). It outlives rotations.
   */
  secret(purpose: string): Uint8Array {
    this.refresh();
    let secret = this.derived.get(purpose);
    if (!secret) this.derived.set(purpose, (secret = derive(this.shared!, purpose)));
    return secret;
  }

  /** That of before the last revocation, which may be undefined, and when it ended, ms; null: there was none. */
  formerSecret(purpose: string): { endedAt: number; secret: Uint8Array | undefined } | null {
    this.refresh();
    const { former } = this;
    return former && { ...former, secret: former.secret && derive(former.secret, purpose) };
  }

  list(): ListedKey[] {
    this.refresh();
    return listed(this.all, this.clock());
  }

  private refresh(): void {
    if (!this.watch.changed()) return;
    try {
      this.load();
      this.logger?.info('signing keys reloaded', { keys: this.all.length });
    } catch (error) {
      this.logger?.error('the signing keys file cannot be used; the keys read before stay valid', {
        detail: (error as Error).message,
      });
    }
  }

  private load(): void {
    // Without what is in the file: the text of a private key is not kept in memory.
    const all = this.file.read().map(({ key, signsFrom }) => ({ key, signsFrom }));
    this.shared = this.file.sharedSecret();
    this.former = this.file.formerSecret();
    this.derived.clear();
    this.all = all;
    this.turns = inTurn(all);
  }
}

function listed<K extends Key>(all: readonly Turn<K>[], now: number): ListedKey[] {
  const turns = inTurn(all);
  const signing = signingAt(turns, now);
  return all.map((each) => {
    const turn = turns.indexOf(each);
    const retiredAt = turns[turn + 1]?.signsFrom;
    const isRetired = turn >= 0 && turn < turns.indexOf(signing);
    const status = each === signing ? 'signing' : turn < 0 ? 'published' : isRetired ? 'retired' : 'next';
    return {
      kid: each.key.kid,
      status,
      signs_from: turn >= 0 && each.signsFrom > -Infinity ? new Date(each.signsFrom).toISOString() : null,
      prunable_from: isRetired ? new Date(retiredAt! + LAST_TOKEN_MS).toISOString() : null,
    };
  });
}

/** The keys that sign at some time, by start time. Of several with the same start time, the first in the file signs. */
function inTurn<K extends Key>(all: readonly Turn<K>[]): Turn<K>[] {
  const candidates = all.filter(({ key }) => key.sign);
  const turns = candidates.filter((key, i) => candidates.findIndex((other) => other.signsFrom === key.signsFrom) === i);
  return turns.sort((a, b) => (a.signsFrom < b.signsFrom ? -1 : 1));
}

function signingAt<K extends Key>(turns: readonly Turn<K>[], now: number): Turn<K> {
  return turns.findLast(({ signsFrom }) => signsFrom <= now) ?? turns[0]!;
}

export const adviceToCreate = (command: string): string =>
  `\`credence ${command}\` creates the file that all processes share`;

const toText = (keys: readonly object[], others: object = {}): string =>
  `${JSON.stringify({ keys, ...others }, null, 2)}\n`;

const derive = (secret: Uint8Array, purpose: string): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', secret, '', `credence ${purpose}`, 32));
