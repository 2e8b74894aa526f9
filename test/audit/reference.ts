import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { AuditError } from '../../clients/typescript/src/audit.js';

/** Trees, proofs and notes by the definitions of RFC 9162 and C2SP, for what the verifiers are given. */

export const sha256 = (...parts: (string | Uint8Array)[]): Buffer =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
const node = (left: Uint8Array, right: Uint8Array) => sha256('\x01', left, right);

/** The largest power of two below n. */
const split = (n: number) => 2 ** Math.floor(Math.log2(n - 1));

/** MTH(D) of section 2.1.1, of leaf hashes. */
export function rootOf(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0]!;
  const k = split(leaves.length);
  return node(rootOf(leaves.slice(0, k)), rootOf(leaves.slice(k)));
}

/** PATH(m, D) of section 2.1.3.1. */
export function inclusionProof(m: number, leaves: readonly Buffer[]): Buffer[] {
  if (leaves.length === 1) return [];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return m < k ? [...inclusionProof(m, left), rootOf(right)] : [...inclusionProof(m - k, right), rootOf(left)];
}

/** PROOF(m, D) of section 2.1.4.1. */
export const consistencyProof = (m: number, leaves: readonly Buffer[]): Buffer[] => subProof(m, leaves, true);

function subProof(m: number, leaves: readonly Buffer[], isWhole: boolean): Buffer[] {
  if (m === leaves.length) return isWhole ? [] : [rootOf(leaves)];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return m <= k ? [...subProof(m, left, isWhole), rootOf(right)] : [...subProof(m - k, right, false), rootOf(left)];
}

/** Signs notes, as c2sp.org/signed-note says. */
export function signerOf(name: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = Buffer.concat([Buffer.of(1), Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')]);
  const id = sha256(`${name}\n`, key).subarray(0, 4);
  return {
    key: `${name}+${id.toString('hex')}+${key.toString('base64')}`,
    line: (text: string) =>
      `— ${name} ${Buffer.concat([id, sign(null, Buffer.from(text), privateKey)]).toString('base64')}\n`,
  };
}

export type Signer = ReturnType<typeof signerOf>;

export function checkpointOf(origin: string, leaves: readonly Buffer[], signer: Signer): string {
  const text = `${origin}\n${leaves.length}\n${rootOf(leaves).toString('base64')}\n`;
  return `${text}\n${signer.line(text)}`;
}

export function proofFile(index: number, proof: readonly Buffer[], checkpoint: string): string {
  return [
    'c2sp.org/tlog-proof@v1',
    `index ${index}`,
    ...proof.map((hash) => hash.toString('base64')),
    '',
    checkpoint,
  ].join('\n');
}

/** What a verifier refuses with. @throws Error if it refuses nothing, or fails in another way */
export async function refusalOf(verify: () => unknown): Promise<AuditError> {
  try {
    await verify();
  } catch (error) {
    if (error instanceof AuditError && error.message.length > 20) return error;
    throw error;
  }
  throw new Error('It was accepted.');
}
