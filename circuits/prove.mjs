/**
 * A holder and an issuer in one, for tests and trials: `node circuits/prove.mjs < jobs.json > proofs.json`.
 *
 * Each job is {circuit: "kyh" | "kyc", members, holder, scope, subject, aml_required?}: the issuer's tree holds the
 * members [{secret, expires_at, aml?}] (numbers as decimal text, 16 at most), the one at the index `holder` proves. The
 * answer to each is {root, proof, public_signals}, the last two as POST /v1/tris/verifications takes them.
 */
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { grainGenConstants, poseidon } from '@noble/curves/abstract/poseidon';
import { bn254 } from '@noble/curves/bn254';
import * as snarkjs from 'snarkjs';

const DEPTH = 4;

/** Poseidon as circomlib has it (Grassi et al., USENIX Security 2021): x^5, 8 full rounds, partial ones by width. */
const PARTIAL_ROUNDS = [56, 57, 56];
const permutations = PARTIAL_ROUNDS.map((roundsPartial, i) => {
  const basic = { Fp: bn254.fields.Fr, t: i + 2, roundsFull: 8, roundsPartial, sboxPower: 5 };
  return poseidon({ ...basic, ...grainGenConstants(basic) });
});
const hash = (...inputs) => permutations[inputs.length - 1]([0n, ...inputs.map(BigInt)])[0];

function leafOf(circuit, { secret, expires_at, aml = 0 }) {
  return circuit === 'kyh' ? hash(hash(secret), expires_at) : hash(hash(secret), aml, expires_at);
}

/** The root over the leaves, zeros beyond them, and the way up from one. */
function treeOf(leaves, index) {
  let level = Array.from({ length: 2 ** DEPTH }, (_, i) => leaves[i] ?? 0n);
  const siblings = [];
  const bits = [];
  for (let at = index; level.length > 1; at >>= 1) {
    siblings.push(level[at ^ 1]);
    bits.push(at & 1);
    level = Array.from({ length: level.length / 2 }, (_, i) => hash(level[2 * i], level[2 * i + 1]));
  }
  return { root: level[0], siblings, index: bits };
}

async function prove({ circuit, members, holder, scope, subject, aml_required = '0' }) {
  const { secret, expires_at, aml = '0' } = members[holder];
  const leaves = members.map((member) => leafOf(circuit, member));
  const common = { secret, expires_at, scope, subject, ...treeOf(leaves, holder) };
  const inputs = circuit === 'kyh' ? common : { ...common, aml, aml_required };
  const artifact = (ending) => join(import.meta.dirname, 'artifacts', `${circuit}.${ending}`);
  const { proof, publicSignals } = await snarkjs.groth16.fullProve(inputs, artifact('wasm'), artifact('zkey'));
  return { root: String(common.root), proof, public_signals: publicSignals };
}

const proofs = [];
// One after the other: each proof takes all the cores there are.
for (const job of JSON.parse(await text(process.stdin))) proofs.push(await prove(job));
process.stdout.write(JSON.stringify(proofs), () => process.exit());
