import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { type Config, ConfigError } from '../config.js';
import { canonicalJson } from '../hash.js';
import { createFile } from '../http/secret-file.js';
import { isObject } from '../http/validation.js';
import type { JsonObject } from '../json.js';

/** The public half of an Ed25519 key, RFC 8037. */
export interface PublicJwk {
  kty: 'OKP';
  crv: 'Ed25519';
  x: string;
  kid: string;
  use: 'sig';
  alg: 'EdDSA';
}

/**
 * The keys behind every proof the service gives, from a JWK set file (RFC 7517). The first key with a private part
 * signs; all are published, so that a key can be announced before it signs and outlive its last signature.
 */
export class SigningKeys {
  /** The public set for `/.well-known/jwks.json`. */
  readonly jwks: { keys: PublicJwk[] };
  /** RFC 7638 thumbprint of the key that signs. */
  readonly kid: string;
  private readonly key: KeyObject;
  /** Protected headers already encoded, by `typ`. */
  private readonly headers = new Map<string, string>();

  /** Reads the file, or makes it with one new key (0600) if it does not exist. @throws ConfigError */
  constructor(config: Config) {
    const file = config.signingKeys ?? config.inData('signing-keys.json');
    if (!existsSync(file)) createFile(file, newKeySet());
    const keys = readKeySet(file);
    const signing = keys.find(({ key }) => key !== undefined);
    if (!signing?.key) throw new ConfigError(`${file} holds no private key to sign with.`);
    this.jwks = { keys: keys.map(({ jwk }) => jwk) };
    this.kid = signing.jwk.kid;
    this.key = signing.key;
  }

  /**
   * A compact JWS (RFC 7515) by EdDSA (RFC 8037) over the canonical JSON (RFC 8785) of the payload. Ed25519 is
   * deterministic: the same payload gives the same bytes for as long as the key signs.
   */
  sign(payload: JsonObject, typ: string): string {
    let header = this.headers.get(typ);
    if (header === undefined) {
      header = base64url(JSON.stringify({ alg: 'EdDSA', kid: this.kid, typ }));
      this.headers.set(typ, header);
    }
    const input = `${header}.${base64url(canonicalJson(payload))}`;
    return `${input}.${signBytes(null, Buffer.from(input), this.key).toString('base64url')}`;
  }
}

const base64url = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');

/** RFC 7638 section 3: SHA-256 over the required members of the key, in lexicographic order. */
export const thumbprint = (x: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url');

function newKeySet(): string {
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as { d: string; x: string };
  const key = { kty: 'OKP', crv: 'Ed25519', x, d, kid: thumbprint(x), use: 'sig', alg: 'EdDSA' };
  return `${JSON.stringify({ keys: [key] }, null, 2)}\n`;
}

function readKeySet(file: string): { jwk: PublicJwk; key: KeyObject | undefined }[] {
  let set: unknown;
  try {
    set = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${file} cannot be read as JSON: ${(error as Error).message}.`);
  }
  if (!isObject(set) || !Array.isArray(set.keys) || set.keys.length === 0) {
    throw new ConfigError(`${file} must be a JWK set: {"keys": [...]} with at least one key.`);
  }
  return set.keys.map((jwk: unknown, index) => {
    const wrong = (what: string) => new ConfigError(`${file}: key ${index + 1} ${what}.`);
    if (!isObject(jwk) || jwk.kty !== 'OKP' || jwk.crv !== 'Ed25519' || typeof jwk.x !== 'string') {
      throw wrong('is not an Ed25519 key (kty "OKP", crv "Ed25519", x)');
    }
    const { x, d, kid } = jwk;
    if (kid !== undefined && kid !== thumbprint(x)) throw wrong('has a kid that is not its RFC 7638 thumbprint');
    const published: PublicJwk = { kty: 'OKP', crv: 'Ed25519', x, kid: thumbprint(x), use: 'sig', alg: 'EdDSA' };
    if (d === undefined) return { jwk: published, key: undefined };
    try {
      return {
        jwk: published,
        key: createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d: d as string }, format: 'jwk' }),
      };
    } catch {
      throw wrong('has a private part that cannot be read');
    }
  });
}
