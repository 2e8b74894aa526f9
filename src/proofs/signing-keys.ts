import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { Clock } from '../clock.js';
import { type Config, ConfigError } from '../config.js';
import { canonicalJson } from '../hash.js';
import { parseTimestamp } from '../http/formats.js';
import { createFile, exclusively, fileVersion, replaceFile } from '../http/secret-file.js';
import { isObject } from '../http/validation.js';
import type { JsonObject } from '../json.js';
import type { Log } from '../ops/log.js';

/** The public half of an Ed25519 key, RFC 8037. */
export interface PublicJwk {
  kty: 'OKP';
  crv: 'Ed25519';
  x: string;
  kid: string;
  use: 'sig';
  alg: 'EdDSA';
}

interface SigningKey {
  jwk: PublicJwk;
  /** Absent: published only. */
  key: KeyObject | undefined;
  /** ms since the epoch; −Infinity for a key that never waited. */
  signsFrom: number;
}

const RELOAD_CHECK_MS = 1_000;
/** How long a new key is published before it signs, at least: longer than anyone may keep the old set. */
export const ANNOUNCED_MS = 10 * 60_000;
/** How long what a key has signed last may live: an eligibility token's longest ttl, and a margin for clocks. */
export const LAST_TOKEN_MS = 86_400_000 + 60_000;

/**
 * The keys behind every proof the service gives, from a JWK set file (RFC 7517), reread when it changes. All are
 * published. Of those with a private part, the one whose time to sign (`signs_from`, a member of ours) came last signs;
 * without any such times the first. So a key can be announced before it signs and outlive its last signature.
 */
export class SigningKeys {
  private keys: SigningKey[] = [];
  private turns: SigningKey[] = [];
  private published: { keys: PublicJwk[] } = { keys: [] };
  private readonly file: string;
  private version: string;
  private nextCheck: number;
  /** Protected headers already encoded, by kid and `typ`. */
  private readonly headers = new Map<string, string>();

  /**
   * Reads the file, or makes it with one new key (0600) if it does not exist; in the cluster profile it must exist.
   * @throws ConfigError
   */
  constructor(
    config: Config,
    private readonly log?: Log,
    private readonly clock: Clock = Date.now,
  ) {
    this.file = signingKeysFile(config);
    if (config.profile === 'cluster') refuseUnlessShared(config);
    createSigningKeys(config);
    this.version = fileVersion(this.file);
    this.nextCheck = clock() + RELOAD_CHECK_MS;
    this.load();
  }

  /** The public set for `/.well-known/jwks.json`. */
  get jwks(): { keys: PublicJwk[] } {
    this.refresh();
    return this.published;
  }

  /** RFC 7638 thumbprint of the key that signs now. */
  get kid(): string {
    this.refresh();
    return this.current().jwk.kid;
  }

  /** Is the private part of this key here, whether or not its time to sign is now? */
  signsWith(kid: string): boolean {
    this.refresh();
    return this.keys.some(({ jwk, key }) => key !== undefined && jwk.kid === kid);
  }

  /**
   * A compact JWS (RFC 7515) by EdDSA (RFC 8037) over the canonical JSON (RFC 8785) of the payload. Ed25519 is
   * deterministic: the same payload and key give the same bytes.
   * @param kid default: of the key that signs now; else one that `signsWith` knows
   */
  sign(payload: JsonObject, typ: string, kid?: string): string {
    this.refresh();
    const { jwk, key } = kid === undefined ? this.current() : this.keys.find((own) => own.jwk.kid === kid)!;
    const name = `${jwk.kid} ${typ}`;
    let header = this.headers.get(name);
    if (header === undefined) {
      header = base64url(JSON.stringify({ alg: 'EdDSA', kid: jwk.kid, typ }));
      this.headers.set(name, header);
    }
    const input = `${header}.${base64url(canonicalJson(payload))}`;
    return `${input}.${signBytes(null, Buffer.from(input), key!).toString('base64url')}`;
  }

  private current(): SigningKey {
    return signingAt(this.turns, this.clock());
  }

  private refresh(): void {
    const now = this.clock();
    if (now < this.nextCheck) return;
    this.nextCheck = now + RELOAD_CHECK_MS;
    const version = fileVersion(this.file);
    if (version === this.version) return;
    this.version = version;
    try {
      this.load();
      this.log?.info('signing keys reloaded', { keys: this.keys.length });
    } catch (error) {
      this.log?.error('The signing keys file cannot be used; the keys read before stay in force', {
        detail: (error as Error).message,
      });
    }
  }

  private load(): void {
    this.keys = readKeySet(this.file).map(({ key }) => key);
    this.turns = turnsOf(this.keys);
    this.published = { keys: this.keys.map(({ jwk }) => jwk) };
  }
}

/** The file `credence signing-keys` works on. */
export const signingKeysFile = (config: Config): string => config.signingKeys ?? config.inData('signing-keys.json');

/** A key as an operator sees it. Times in ms since the epoch. */
export interface ListedKey {
  kid: string;
  /** `published`: it has no private part here, or its turn never comes. */
  status: 'next' | 'signing' | 'retired' | 'published';
  /** null: from the beginning, or never. */
  signs_from: number | null;
  /** When its last token is dead; null: not retired. */
  prunable_from: number | null;
}

/** What one process signs every other must publish: none of several may make keys of its own. */
function refuseUnlessShared({ signingKeys }: Config): void {
  const advice = '`credence signing-keys create` makes the file, one for all processes';
  if (signingKeys === undefined) throw new ConfigError(`The cluster profile needs CREDENCE_SIGNING_KEYS; ${advice}.`);
  if (existsSync(signingKeys)) return;
  throw new ConfigError(`CREDENCE_SIGNING_KEYS names ${signingKeys}, which does not exist; ${advice}.`);
}

/** Makes the file with one new key that signs at once. @returns whether it did: false if there is one */
export function createSigningKeys(config: Config): boolean {
  const file = signingKeysFile(config);
  return !existsSync(file) && createFile(file, toText([newKey()]));
}

/** @throws ConfigError */
export function listSigningKeys(config: Config, now: number): ListedKey[] {
  const keys = readKeySet(signingKeysFile(config)).map(({ key }) => key);
  const turns = turnsOf(keys);
  const signing = signingAt(turns, now);
  return keys.map((key) => {
    const turn = turns.indexOf(key);
    const retiredAt = turns[turn + 1]?.signsFrom;
    const isRetired = turn >= 0 && turn < turns.indexOf(signing);
    const status = key === signing ? 'signing' : turn < 0 ? 'published' : isRetired ? 'retired' : 'next';
    return {
      kid: key.jwk.kid,
      status,
      signs_from: turn >= 0 && key.signsFrom > -Infinity ? key.signsFrom : null,
      prunable_from: isRetired ? retiredAt! + LAST_TOKEN_MS : null,
    };
  });
}

/**
 * Adds a new key that signs from a time on; running servers publish it within a second.
 * @param delayMs from now; less than ANNOUNCED_MS makes tokens that verifiers with an older set refuse at first
 * @throws ConfigError when a next key is announced already
 */
export function rotateSigningKeys(config: Config, now: number, delayMs: number): { kid: string; signs_from: number } {
  const file = signingKeysFile(config);
  return exclusively(file, () => {
    const next = listSigningKeys(config, now).find(({ status }) => status === 'next');
    if (next) {
      const when = new Date(next.signs_from!).toISOString();
      throw new ConfigError(`The key ${next.kid} is announced already; it signs from ${when}.`);
    }
    const key = newKey();
    const signs_from = now + delayMs;
    const stored = readKeySet(file).map(({ raw }) => raw);
    replaceFile(file, toText([...stored, { ...key, signs_from: new Date(signs_from).toISOString() }]));
    return { kid: key['kid'] as string, signs_from };
  });
}

/** Removes the retired keys whose last token is dead, and returns their kids. Proofs they signed no longer verify here. */
export function pruneSigningKeys(config: Config, now: number): string[] {
  const file = signingKeysFile(config);
  return exclusively(file, () => {
    const dead = listSigningKeys(config, now)
      .filter(({ prunable_from }) => prunable_from !== null && prunable_from <= now)
      .map(({ kid }) => kid);
    const kept = readKeySet(file).filter(({ key }) => !dead.includes(key.jwk.kid));
    if (dead.length > 0) replaceFile(file, toText(kept.map(({ raw }) => raw)));
    return dead;
  });
}

/** The keys that sign at some time, in the order in which they do. Of several for one time, the first in the file does. */
function turnsOf(keys: readonly SigningKey[]): SigningKey[] {
  const candidates = keys.filter(({ key }) => key !== undefined);
  const turns = candidates.filter((key, i) => candidates.findIndex((other) => other.signsFrom === key.signsFrom) === i);
  return turns.sort((a, b) => (a.signsFrom < b.signsFrom ? -1 : 1));
}

function signingAt(turns: readonly SigningKey[], now: number): SigningKey {
  return turns.findLast(({ signsFrom }) => signsFrom <= now) ?? turns[0]!;
}

const base64url = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');

/** RFC 7638 section 3: SHA-256 over the required members of the key, in lexicographic order. */
export const thumbprint = (x: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url');

const toText = (keys: readonly object[]): string => `${JSON.stringify({ keys }, null, 2)}\n`;

function newKey(): Record<string, unknown> {
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as { d: string; x: string };
  return { kty: 'OKP', crv: 'Ed25519', x, d, kid: thumbprint(x), use: 'sig', alg: 'EdDSA' };
}

function readKeySet(file: string): { key: SigningKey; raw: object }[] {
  let set: unknown;
  try {
    set = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${file} cannot be read as JSON: ${(error as Error).message}.`);
  }
  if (!isObject(set) || !Array.isArray(set.keys) || set.keys.length === 0) {
    throw new ConfigError(`${file} must be a JWK set: {"keys": [...]} with at least one key.`);
  }
  const keys = set.keys.map((raw: unknown, index) => {
    return { raw: raw as object, key: readKey(raw, (what) => new ConfigError(`${file}: key ${index + 1} ${what}.`)) };
  });
  if (keys.every(({ key }) => key.key === undefined)) {
    throw new ConfigError(`${file} holds no private key to sign with.`);
  }
  return keys;
}

function readKey(jwk: unknown, wrong: (what: string) => ConfigError): SigningKey {
  if (!isObject(jwk) || jwk.kty !== 'OKP' || jwk.crv !== 'Ed25519' || typeof jwk.x !== 'string') {
    throw wrong('is not an Ed25519 key (kty "OKP", crv "Ed25519", x)');
  }
  const { x, d, kid, signs_from } = jwk;
  if (kid !== undefined && kid !== thumbprint(x)) throw wrong('has a kid that is not its RFC 7638 thumbprint');
  const signsFrom = signs_from === undefined ? -Infinity : parseTimestamp(String(signs_from));
  if (signsFrom === undefined) throw wrong('has a signs_from that is not a time');
  const published: PublicJwk = { kty: 'OKP', crv: 'Ed25519', x, kid: thumbprint(x), use: 'sig', alg: 'EdDSA' };
  if (d === undefined) return { jwk: published, key: undefined, signsFrom };
  try {
    const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d: d as string }, format: 'jwk' });
    return { jwk: published, key, signsFrom };
  } catch {
    throw wrong('has a private part that cannot be read');
  }
}
