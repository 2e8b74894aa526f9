import { sha256Hex } from '../../../kernel/hash.js';

/** Order of bn254's groups: public signals are numbers below it (EIP-197). */
export const GROUP_ORDER = 0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001n;
/** Prime of the field of the coordinates. */
const FIELD_PRIME = 0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n;
/** No number of 254 bits has more decimal digits. */
export const DECIMAL = /^(?:0|[1-9][0-9]{0,76})$/;

/** A verification key as snarkjs exports it. */
export interface VerificationKey {
  protocol: 'groth16';
  curve: 'bn128';
  nPublic: number;
  vk_alpha_1: string[];
  vk_beta_2: string[][];
  vk_gamma_2: string[][];
  vk_delta_2: string[][];
  IC: string[][];
}

/** A proof as snarkjs writes it. */
export interface Proof {
  pi_a: string[];
  pi_b: string[][];
  pi_c: string[];
}

/** A number below the group's order in canonical form: decimal, no sign, no leading zero. */
export const isSignal = (value: unknown): value is string => isNumberBelow(value, GROUP_ORDER);

/** An affine point as snarkjs writes it: [x, y, "1"]. The worker checks whether it is on the curve. */
export const isG1 = (value: unknown): value is string[] =>
  isList(value, 3) && isCoordinate(value[0]) && isCoordinate(value[1]) && value[2] === '1';

/** [[x, x'], [y, y'], ["1", "0"]], the real part first. */
export function isG2(value: unknown): value is string[][] {
  if (!isList(value, 3)) return false;
  const [x, y, z] = value;
  return (
    [x, y].every((pair) => isList(pair, 2) && pair.every(isCoordinate)) && isList(z, 2) && z[0] === '1' && z[1] === '0'
  );
}

/** Encodes a text as a public signal: its SHA-256 as a big-endian number, modulo the group's order. */
export const fieldOf = (text: string): string => (BigInt(`0x${sha256Hex(text)}`) % GROUP_ORDER).toString();

const isCoordinate = (value: unknown): boolean => isNumberBelow(value, FIELD_PRIME);

const isNumberBelow = (value: unknown, limit: bigint): boolean =>
  typeof value === 'string' && DECIMAL.test(value) && BigInt(value) < limit;

const isList = (value: unknown, length: number): value is unknown[] => Array.isArray(value) && value.length === length;
