import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { checkKey, verify } from '../../src/features/verifications/groth16.mjs';
import { isG1, isG2, isSignal } from '../../src/features/verifications/domain/proof-format.js';
import { type Proven, g1, jsonOfG1, keyOf, malleated, pointOutsideSubgroup, prove } from './proofs.fixture.js';

/** The arithmetic, against proofs of snarkjs. */

const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;
const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const key = keyOf('kyh');
let proven: Proven;
beforeAll(async () => {
  const members = [{ secret: '11', expires_at: '1900000000' }];
  [proven] = (await prove([{ circuit: 'kyh', members, holder: 0, scope: '5', subject: '7' }])) as [Proven];
});
const holds = (proof = proven.proof, signals = proven.public_signals) => verify('kyh', key, proof, signals);

test('a valid proof is accepted, and so is every malleated form of it', () => {
  expect(holds()).toBe(true);
  const others = malleated(proven.proof, key);
  expect(others.map((proof) => holds(proof))).toEqual([true, true, true]);
  expect(new Set(others.map((proof) => JSON.stringify(proof))).size).toBe(3);
});

test('a proof is valid for its own signals only', () => {
  for (const i of proven.public_signals.keys()) {
    const signals = proven.public_signals.with(i, String((BigInt(proven.public_signals[i]!) + 1n) % R));
    expect(holds(proven.proof, signals)).toBe(false);
  }
});

test('an invalid proof is refused, whatever its points', () => {
  const { pi_a, pi_b, pi_c } = proven.proof;
  expect(holds({ ...proven.proof, pi_c: jsonOfG1(g1(pi_c).negate()) })).toBe(false);
  expect(holds({ ...proven.proof, pi_a: pi_c, pi_c: pi_a })).toBe(false);
  expect(holds({ ...proven.proof, pi_b: key.vk_beta_2, pi_a: key.vk_alpha_1 })).toBe(false);
  expect(verify('kyc', keyOf('kyc'), { pi_a, pi_b, pi_c }, [...proven.public_signals, '0'])).toBe(false);
});

test('points off the curve, outside the subgroup and at infinity are named', () => {
  const [x, y] = proven.proof.pi_a as [string, string];
  const where = (change: object) => (holds({ ...proven.proof, ...change }) as { pointer: string }).pointer;
  expect(where({ pi_a: [x, String(BigInt(y) + 1n), '1'] })).toBe('/pi_a');
  expect(where({ pi_c: ['0', '0', '1'] })).toBe('/pi_c');
  expect(
    where({
      pi_b: [
        ['1', '2'],
        ['3', '4'],
        ['1', '0'],
      ],
    }),
  ).toBe('/pi_b');
  expect(
    where({
      pi_b: [
        ['0', '0'],
        ['0', '0'],
        ['1', '0'],
      ],
    }),
  ).toBe('/pi_b');
  expect(where({ pi_b: pointOutsideSubgroup() })).toBe('/pi_b');
});

test('a key is valid, or its invalid point is named', () => {
  expect([checkKey(key), checkKey(keyOf('kyc'))]).toEqual([true, true]);
  const where = (change: object) => (checkKey({ ...key, ...change }) as { pointer: string }).pointer;
  // Without a contribution to the second phase delta is gamma, and proofs can be forged.
  expect(where({ vk_delta_2: key.vk_gamma_2 })).toBe('/vk_delta_2');
  expect(where({ vk_beta_2: pointOutsideSubgroup() })).toBe('/vk_beta_2');
  expect(where({ IC: key.IC.with(2, ['0', '0', '1']) })).toBe('/IC/2');
});

test('numbers have one valid spelling, below the order or the prime', () => {
  expect(['0', '1', String(R - 1n)].map(isSignal)).toEqual([true, true, true]);
  for (const wrong of [String(R), '-1', '01', '+1', '1.0', '0x1', '1e3', ' 1', '', '９', '1'.repeat(100), 1, null]) {
    expect(isSignal(wrong)).toBe(false);
  }
  expect(isG1([String(P - 1n), '1', '1'])).toBe(true);
  for (const wrong of [[String(P), '1', '1'], ['1', '1'], ['1', '1', '0'], ['1', '1', '1', '1'], '1,1,1', [1, 1, 1]]) {
    expect(isG1(wrong)).toBe(false);
  }
  expect(
    isG2([
      ['1', '2'],
      ['3', '4'],
      ['1', '0'],
    ]),
  ).toBe(true);
  expect(isG2([['1', '2'], ['3', '4'], ['1,0']])).toBe(false);
  expect(
    isG2([
      ['1', '2', '3'],
      ['3', '4'],
      ['1', '0'],
    ]),
  ).toBe(false);
});

test('the artifacts are those that SHA256SUMS names', () => {
  const folder = new URL('../../circuits/artifacts/', import.meta.url);
  const sums = readFileSync(new URL('SHA256SUMS', folder), 'utf8').trim().split('\n');
  expect(sums).toHaveLength(6);
  for (const line of sums) {
    const [sum, file] = line.split('  ') as [string, string];
    expect(
      createHash('sha256')
        .update(readFileSync(new URL(file, folder)))
        .digest('hex'),
    ).toBe(sum);
  }
});
