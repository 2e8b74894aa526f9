import { createECDH, randomBytes } from 'node:crypto';
import { getAddress } from 'ethers/address';
import { keccak256 } from 'ethers/crypto';
import { isPrivate, signRecoverable } from 'tiny-secp256k1';
import type { Clock } from '../kernel/clock.js';
import type { Config } from '../kernel/config.js';
import type { Logger } from '../kernel/logger.js';
import { type Key, KeyFile, type KeyKind, KeyRing } from './key-file.js';

/** An issuer of vouchers: a key on secp256k1. Its name (`kid`) is its address, EIP-55. */
export interface IssuerKey extends Key {
  /**
   * Signs a hash of 32 bytes by ECDSA: deterministic (RFC 6979), with s in the lower half of the order (EIP-2).
   * @returns r, s and v (27 or 28), 65 bytes as hex
   */
  sign: ((hash: Uint8Array) => string) | undefined;
}

/** The file `credence signing-keys --vouchers` works on. */
export const issuerKeyFile = (config: Config) =>
  new KeyFile(config.voucherKeys ?? config.inData('voucher-keys.json'), SECP256K1);

/**
 * The keys that sign vouchers for contracts, in a JWK set of their own (RFC 8812). They rotate independently of the
 * token keys, since each new address must be registered on chains before it signs. Reads the file, or creates it with
 * one new key (0600) if it does not exist. In the cluster profile, processes share it: a configured file must exist.
 * @returns undefined without one in the cluster profile: no vouchers are issued
 * @throws ConfigError
 */
export function issuerKeys(config: Config, logger: Logger, clock: Clock): KeyRing<IssuerKey> | undefined {
  const file = issuerKeyFile(config);
  if (config.profile === 'cluster' && config.voucherKeys === undefined) return undefined;
  file.prepare(config, 'CREDENCE_VOUCHER_KEYS', 'signing-keys create --vouchers');
  return new KeyRing(file, logger, clock);
}

const SECP256K1: KeyKind<IssuerKey> = {
  make() {
    let secret: Buffer;
    do secret = randomBytes(32);
    while (!isPrivate(secret));
    const [x, y] = pointOf(secret);
    const jwk = { kty: 'EC', crv: 'secp256k1', x: x.toString('base64url'), y: y.toString('base64url') };
    return { ...jwk, d: secret.toString('base64url'), kid: addressOf(x, y), use: 'sig', alg: 'ES256K' };
  },

  read({ kty, crv, x, y, d }, wrong) {
    const point = [x, y].map((each) => Buffer.from(typeof each === 'string' ? each : '', 'base64url'));
    if (kty !== 'EC' || crv !== 'secp256k1' || point.some(({ length }) => length !== 32)) {
      throw wrong('is not a key on secp256k1 (kty "EC", crv "secp256k1", x, y)');
    }
    const kid = addressOf(point[0]!, point[1]!);
    if (d === undefined) return { kid, sign: undefined };
    const secret = Buffer.from(typeof d === 'string' ? d : '', 'base64url');
    if (!isPrivate(secret) || addressOf(...pointOf(secret)) !== kid) {
      throw wrong('has a private part that does not match its x and y');
    }
    const sign = (hash: Uint8Array) => {
      const { signature, recoveryId } = signRecoverable(hash, secret);
      return `0x${Buffer.from(signature).toString('hex')}${(27 + recoveryId).toString(16)}`;
    };
    return { kid, sign };
  },
};

function pointOf(secret: Buffer): [x: Buffer, y: Buffer] {
  const curve = createECDH('secp256k1');
  curve.setPrivateKey(secret);
  const point = curve.getPublicKey(null, 'uncompressed');
  return [point.subarray(1, 33), point.subarray(33)];
}

/** The Ethereum address of a public key. */
const addressOf = (x: Buffer, y: Buffer): string => getAddress(`0x${keccak256(Buffer.concat([x, y])).slice(-40)}`);
