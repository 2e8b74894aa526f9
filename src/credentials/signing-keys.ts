import { createHash, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock } from '../kernel/clock.js';
import { type Config, ConfigError } from '../kernel/config.js';
import { canonicalJson } from '../kernel/hash.js';
import type { JsonObject } from '../kernel/json.js';
import type { Logger } from '../kernel/logger.js';
import { endOfTurn } from '../kernel/turn.js';
import { type Key, KeyFile, type KeyKind, KeyRing, adviceToCreate } from './key-file.js';

/** The public half of an Ed25519 key, RFC 8037. */
export interface PublicJwk {
  kty: 'OKP';
  crv: 'Ed25519';
  x: string;
  kid: string;
  use: 'sig';
  alg: 'EdDSA';
}

export interface SigningKey extends Key {
  jwk: PublicJwk;
  sign: ((bytes: Buffer) => Buffer) | undefined;
  /** The same in libuv's thread pool. */
  signAside?: (bytes: Buffer) => Promise<Buffer>;
}

const signBytes = promisify(sign);

/** The file `credence signing-keys` works on. */
export const signingKeyFile = (config: Config) =>
  new KeyFile(config.signingKeys ?? config.inData('signing-keys.json'), ED25519);

/** The keys that sign all proofs and tokens, from a JWK set file (RFC 7517). All are published. */
export class SigningKeys extends KeyRing<SigningKey> {
  /**
   * Reads the file, or creates it with one new key (0600) if it does not exist; in the cluster profile it must exist.
   * @throws ConfigError
   */
  constructor(config: Config, logger?: Logger, clock: Clock = Date.now) {
    const command = 'signing-keys create';
    if (config.profile === 'cluster' && config.signingKeys === undefined) {
      throw new ConfigError(`The cluster profile requires CREDENCE_SIGNING_KEYS; ${adviceToCreate(command)}.`);
    }
    const file = signingKeyFile(config);
    file.prepare(config, 'CREDENCE_SIGNING_KEYS', command);
    super(file, logger, clock);
  }

  /** The public set for `/.well-known/jwks.json`. */
  get jwks(): { keys: PublicJwk[] } {
    return { keys: this.keys.map(({ jwk }) => jwk) };
  }

  /**
   * A compact JWS (RFC 7515) by EdDSA (RFC 8037) over the canonical JSON (RFC 8785) of the payload. Ed25519 is
   * deterministic: the same payload and key give the same bytes.
   * Signing runs in libuv's thread pool: it takes longer than most requests do.
   * @param kid default: of the key that signs now; otherwise a kid for which `signsWith` is true
   */
  async sign(payload: JsonObject, typ: string, kid?: string): Promise<string> {
    const key = kid === undefined ? this.current : this.signer(kid)!;
    const header = base64url(JSON.stringify({ alg: 'EdDSA', kid: key.kid, typ }));
    const input = `${header}.${base64url(canonicalJson(payload))}`;
    await endOfTurn();
    const signature = await key.signAside!(Buffer.from(input));
    return `${input}.${signature.toString('base64url')}`;
  }
}

const base64url = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');

/** RFC 7638 section 3: SHA-256 over the required members of the key, in lexicographic order. */
export const thumbprint = (x: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url');

export const ED25519: KeyKind<SigningKey> = {
  sharesSecret: true,

  make() {
    // Not by the key's `export`: a garbage collection during it can deadlock. The key is at the end of the DER form
    // (RFC 8410).
    const { privateKey, publicKey } = generateKeyPairSync('ed25519', {
      privateKeyEncoding: { type: 'pkcs8', format: 'der' },
      publicKeyEncoding: { type: 'spki', format: 'der' },
    });
    const [d, x] = [privateKey.toString('base64url', 16), publicKey.toString('base64url', 12)];
    return { kty: 'OKP', crv: 'Ed25519', x, d, kid: thumbprint(x), use: 'sig', alg: 'EdDSA' };
  },

  read({ kty, crv, x, d }, wrong) {
    if (kty !== 'OKP' || crv !== 'Ed25519' || typeof x !== 'string') {
      throw wrong('is not an Ed25519 key (kty "OKP", crv "Ed25519", x)');
    }
    const kid = thumbprint(x);
    const jwk: PublicJwk = { kty, crv, x, kid, use: 'sig', alg: 'EdDSA' };
    if (d === undefined) return { kid, jwk, sign: undefined };
    try {
      const secret = createPrivateKey({ key: { kty, crv, x, d: d as string }, format: 'jwk' });
      const signAside = (bytes: Buffer) => signBytes(null, bytes, secret);
      return { kid, jwk, sign: (bytes) => sign(null, bytes, secret), signAside };
    } catch {
      throw wrong('has a private part that cannot be read');
    }
  },
};
