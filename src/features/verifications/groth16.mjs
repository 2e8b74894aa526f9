// @ts-check
import { bn254 } from '@noble/curves/bn254';

/**
 * Groth16 over bn254 (J. Groth, EUROCRYPT 2016, section 3.2): e(A, B) = e(alpha, beta) e(L, gamma) e(C, delta), with L
 * the public signals' combination of IC. About 20 ms of arithmetic, so a worker thread runs it. That is why this is
 * JavaScript: a thread loads a file as it is, which has to be the same one from the sources and from the build.
 *
 * Numbers come in the form of snarkjs: decimal text, a G2 coordinate as [real, imaginary], and a third coordinate that
 * says the point is affine. `proof-format.ts` has checked all that; here points are held against curve and subgroup.
 */

/**
 * @typedef {string[]} G1Json
 * @typedef {string[][]} G2Json
 * @typedef {{ pi_a: G1Json, pi_b: G2Json, pi_c: G1Json }} ProofJson
 * @typedef {{ vk_alpha_1: G1Json, vk_beta_2: G2Json, vk_gamma_2: G2Json, vk_delta_2: G2Json, IC: G1Json[] }} KeyJson
 * @typedef {{ pointer: string, message: string }} WrongPoint `pointer` within the proof or the key
 */

const { Fp12 } = bn254.fields;
const { calcPairingPrecomputes } = bn254.utils;
const G1 = bn254.G1.Point;
const G2 = bn254.G2.Point;

/** A point that is none of the curve, or not of the subgroup the equation is about. */
class PointError extends Error {
  /** @param {string} pointer @param {string} message */
  constructor(pointer, message) {
    super(message);
    this.pointer = pointer;
  }
}

/** @param {G1Json} json @param {string} pointer */
function g1(json, pointer) {
  const [x, y] = /** @type {[bigint, bigint]} */ (json.map(BigInt));
  return valid(() => G1.fromAffine({ x, y }), pointer);
}

/** @param {[string, string]} pair real and imaginary part */
const complex = ([real, imaginary]) => bn254.fields.Fp2.create({ c0: BigInt(real), c1: BigInt(imaginary) });

/** @param {G2Json} json @param {string} pointer */
function g2(json, pointer) {
  const [x, y] = /** @type {[[string, string], [string, string], unknown]} */ (json);
  return valid(() => G2.fromAffine({ x: complex(x), y: complex(y) }), pointer);
}

/**
 * @template {{ assertValidity(): void, is0(): boolean }} P
 * @param {() => P} make @param {string} pointer @returns {P}
 */
function valid(make, pointer) {
  try {
    const point = make();
    point.assertValidity();
    if (!point.is0()) return point;
  } catch {
    // The library's reasons do not matter to the caller.
  }
  throw new PointError(pointer, 'this is no point of the group, or its zero');
}

/**
 * @template {{equals(other: T): boolean; negate(): T}} T
 * @param {T} point @param {T} other @param {string} pointer @param {string} name @throws {PointError}
 */
function refuseRelated(point, other, pointer, name) {
  if (!point.equals(other) && !point.equals(other.negate())) return;
  throw new PointError(pointer, `is ${name} or its opposite: proofs under such a key can be forged`);
}

/**
 * A key ready to verify with. The pairing of alpha and beta and the lines of gamma and delta are worked out once.
 * @param {KeyJson} json @throws {PointError}
 */
function prepare(json) {
  const alpha = g1(json.vk_alpha_1, '/vk_alpha_1');
  const beta = g2(json.vk_beta_2, '/vk_beta_2');
  const gamma = g2(json.vk_gamma_2, '/vk_gamma_2');
  const delta = g2(json.vk_delta_2, '/vk_delta_2');
  if (gamma.equals(delta)) {
    const message = 'equals gamma: the second phase of the setup had no contribution, and anyone can forge proofs';
    throw new PointError('/vk_delta_2', message);
  }
  // C = L proves anything if delta = -gamma, A = alpha ± L, B = beta + delta and C = A if gamma = ±beta.
  refuseRelated(gamma, beta, '/vk_gamma_2', 'beta');
  refuseRelated(delta, gamma, '/vk_delta_2', 'gamma');
  refuseRelated(delta, beta, '/vk_delta_2', 'beta');
  const ic = json.IC.map((point, index) => g1(point, `/IC/${index}`));
  // Two signals with the same or opposite points could be swapped.
  ic.forEach((point, index) => {
    for (const other of ic.slice(0, index)) refuseRelated(point, other, `/IC/${index}`, 'an earlier point');
  });
  return {
    alphaBeta: bn254.pairing(alpha, beta),
    gamma: calcPairingPrecomputes(gamma),
    delta: calcPairingPrecomputes(delta),
    // g1 refuses zero, since the proof would then not cover that signal.
    ic,
  };
}

/** @template T @param {() => T} work @returns {T | WrongPoint} */
function tell(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof PointError) return { pointer: error.pointer, message: error.message };
    throw error;
  }
}

/** @param {KeyJson} json @returns {true | WrongPoint} */
export function checkKey(json) {
  return tell(() => Boolean(prepare(json)) || true);
}

/** @type {Map<string, ReturnType<typeof prepare>>} */
const prepared = new Map();
const MAX_PREPARED = 50;

/**
 * @param {string} hash of the key, by which it is kept prepared
 * @param {KeyJson} json
 * @param {ProofJson} proof
 * @param {string[]} signals as many as the key takes, each below the order of the group
 * @returns {boolean | WrongPoint} whether the proof proves the statement about these signals
 */
export function verify(hash, json, proof, signals) {
  return tell(() => {
    const a = g1(proof.pi_a, '/pi_a');
    const b = g2(proof.pi_b, '/pi_b');
    const c = g1(proof.pi_c, '/pi_c');
    let key = prepared.get(hash);
    if (!key) {
      key = prepare(json);
      if (prepared.size >= MAX_PREPARED) prepared.clear();
      prepared.set(hash, key);
    }
    const { ic, alphaBeta, gamma, delta } = key;
    const [constant, ...weights] = /** @type {[typeof a, ...(typeof a)[]]} */ (ic);
    const sum = weights.reduce(
      (point, weight, i) => point.add(weight.multiplyUnsafe(BigInt(signals[i] ?? 0))),
      constant,
    );
    // Nobody knows signals for which it is; the lines of a pairing are not defined there.
    if (sum.is0()) return false;
    const l = sum.toAffine();
    const { x, y } = a.negate().toAffine();
    const { x: cx, y: cy } = c.toAffine();
    const product = bn254.millerLoopBatch([
      [calcPairingPrecomputes(b), x, y],
      [gamma, l.x, l.y],
      [delta, cx, cy],
    ]);
    return Fp12.eql(Fp12.mul(Fp12.finalExponentiate(product), alphaBeta), Fp12.ONE);
  });
}
