import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { bn254 } from '@noble/curves/bn254';
import { type Proof, type VerificationKey, fieldOf } from '../../src/features/verifications/domain/proof-format.js';

/** Real proofs of the two circuits, made by a process of its own: the prover's threads are none of a test's business. */
export interface Job {
  circuit: 'kyh' | 'kyc';
  members: { secret: string; expires_at: string; aml?: '0' | '1' }[];
  holder: number;
  scope: string;
  subject: string;
  aml_required?: '0' | '1';
}
export interface Proven {
  root: string;
  proof: Proof & { protocol: string; curve: string };
  public_signals: string[];
}

const circuits = new URL('../../circuits/', import.meta.url).pathname;

export async function prove(jobs: readonly Job[]): Promise<Proven[]> {
  const child = spawn(process.execPath, [`${circuits}prove.mjs`], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(jobs));
  return JSON.parse(await text(child.stdout)) as Proven[];
}

export function keyOf(circuit: Job['circuit']): VerificationKey & { vk_alphabeta_12: unknown } {
  return JSON.parse(readFileSync(`${circuits}artifacts/${circuit}.vkey.json`, 'utf8'));
}

/** SHA-256 of the circuit's .zkey, which contains the contributions to its setup. */
export function transcriptOf(circuit: Job['circuit']): string {
  return createHash('sha256')
    .update(readFileSync(`${circuits}artifacts/${circuit}.zkey`))
    .digest('hex');
}

/** As a client binds a proof. */
export const bound = (scope: string, trisId: string) => ({ scope: fieldOf(scope), subject: fieldOf(trisId) });

/** Body of POST /v1/verification-schemes over one of the circuits. */
export function schemeBody(
  circuit: Job['circuit'],
  {
    scheme,
    status,
    issuer,
    scope,
    roots,
    aml = '0',
  }: Record<'scheme' | 'status' | 'issuer' | 'scope', string> & {
    roots: string[];
    aml?: string;
  },
) {
  const inputs: { role: string; value?: string }[] = ['nullifier', 'root', 'scope', 'subject', 'expires_at'].map(
    (role) => ({ role }),
  );
  if (circuit === 'kyc') inputs.splice(4, 0, { role: 'constant', value: aml });
  const key = { verification_key: keyOf(circuit), transcript_hash: transcriptOf(circuit) };
  return { scheme, status, issuer, scope, public_inputs: inputs, ...key, roots };
}

const G1 = bn254.G1.Point;
const G2 = bn254.G2.Point;
const { Fr, Fp2 } = bn254.fields;

export const g1 = ([x, y]: string[]) => G1.fromAffine({ x: BigInt(x!), y: BigInt(y!) });
export const g2 = ([x, y]: string[][]) => G2.fromAffine({ x: fp2(x!), y: fp2(y!) });
const fp2 = ([c0, c1]: string[]) => Fp2.create({ c0: BigInt(c0!), c1: BigInt(c1!) });
export function jsonOfG1(point: ReturnType<typeof g1>): string[] {
  const { x, y } = point.toAffine();
  return [String(x), String(y), '1'];
}
export function jsonOfG2(point: ReturnType<typeof g2>): string[][] {
  const { x, y } = point.toAffine();
  return [
    [String(x.c0), String(x.c1)],
    [String(y.c0), String(y.c1)],
    ['1', '0'],
  ];
}

/** Other proofs of the same statement, as anyone can make them without the secret. */
export function malleated<P extends Proof>(proof: P, key: VerificationKey): P[] {
  const [a, b, c] = [g1(proof.pi_a), g2(proof.pi_b), g1(proof.pi_c)];
  const r = 123_456_789n;
  return [
    { ...proof, pi_a: jsonOfG1(a.multiply(r)), pi_b: jsonOfG2(b.multiply(Fr.inv(r))) },
    { ...proof, pi_a: jsonOfG1(a.negate()), pi_b: jsonOfG2(b.negate()) },
    {
      ...proof,
      pi_b: jsonOfG2(b.add(g2(key.vk_delta_2).multiply(r))),
      pi_c: jsonOfG1(c.add(a.multiply(r))),
    },
  ];
}

/** On the curve over Fp2, but not in the subgroup of order r. */
export function pointOutsideSubgroup(): string[][] {
  const b = Fp2.sub(Fp2.sqr(G2.BASE.toAffine().y), Fp2.mul(Fp2.sqr(G2.BASE.toAffine().x), G2.BASE.toAffine().x));
  for (let i = 1n; ; i++) {
    const x = Fp2.create({ c0: i, c1: 0n });
    try {
      const y = Fp2.sqrt(Fp2.add(Fp2.mul(Fp2.sqr(x), x), b));
      const point = G2.fromAffine({ x, y });
      if (
        !point
          .multiplyUnsafe(Fr.ORDER - 1n)
          .add(point)
          .is0()
      )
        return jsonOfG2(point);
    } catch {
      // No such point: x is on no curve.
    }
  }
}
