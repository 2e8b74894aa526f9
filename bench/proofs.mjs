import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { bn254 } from '@noble/curves/bn254';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, interleave, startServer } from './measure.mjs';

const SECONDS = 5;
const PER_SECOND = 10;
const TRIS = 'tris:alice';
const SCOPE = 'bench';

/**
 * The delay of the server's event loop (p99 of its own metric, ms, which counts the 10 ms between two samples) while it
 * verifies ten proofs a second, and while it does nothing; and how many it verifies a second with eight in flight.
 */
export function proofVerification(rounds) {
  return inTemporaryFolder(async (data) => {
    const server = await startServer(join(ROOT, 'dist/src/main.js'), { CREDENCE_DATA: data });
    try {
      const headers = { 'content-type': 'application/json', 'x-api-key': keyOf(data) };
      const post = async (path, body) => {
        const answer = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
        if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      };
      const { root, proof, public_signals } = await prove();
      await post('/v1/verification-schemes', {
        scheme: 'bench',
        status: 'zk-KYH',
        issuer: 'tris:registry',
        scope: SCOPE,
        public_inputs: ['nullifier', 'root', 'scope', 'subject', 'expires_at'].map((role) => ({ role })),
        verification_key: JSON.parse(await readFile(join(ROOT, 'circuits/artifacts/kyh.vkey.json'), 'utf8')),
        transcript_hash: createHash('sha256')
          .update(await readFile(join(ROOT, 'circuits/artifacts/kyh.zkey')))
          .digest('hex'),
        roots: [root],
      });
      const submit = () => post('/v1/tris/verifications', { scheme: 'bench', proof, public_signals, tris_id: TRIS });
      await submit();

      const delay = async (work) => {
        await loopDelay(server.url, headers);
        await work();
        return loopDelay(server.url, headers);
      };
      const steadily = async () => {
        const asked = [];
        for (let i = 0; i < SECONDS * PER_SECOND; i++) {
          // Settled later: a refusal that nobody awaits yet would end the process, with all rows measured so far.
          asked.push(submit().catch((error) => error));
          await sleep(1000 / PER_SECOND);
        }
        const refusal = (await Promise.all(asked)).find((answer) => answer instanceof Error);
        if (refusal) throw refusal;
      };
      const atOnce = async () => {
        let verified = 0;
        const end = performance.now() + SECONDS * 1000;
        const one = async () => {
          for (; performance.now() < end; verified++) await submit();
        };
        await Promise.all(Array.from({ length: 8 }, one));
        return verified / SECONDS;
      };
      return await interleave(rounds, {
        verifying: () => delay(steadily),
        idle: () => delay(() => sleep(SECONDS * 1000)),
        rate: atOnce,
      });
    } finally {
      await server.stop();
    }
  });
}

/** ms since the last sample. */
async function loopDelay(url, headers) {
  const metrics = await (await fetch(`${url}/metrics`, { headers })).text();
  return Number(/^nodejs_eventloop_lag_p99_seconds (\S+)/m.exec(metrics)[1]) * 1000;
}

/** A proof of unique humanity, by the prover in a separate process. */
async function prove() {
  const child = spawn(process.execPath, [join(ROOT, 'circuits/prove.mjs')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const members = [{ secret: '11', expires_at: '4000000000' }];
  const job = { circuit: 'kyh', members, holder: 0, scope: fieldOf(SCOPE), subject: fieldOf(TRIS) };
  child.stdin.end(JSON.stringify([job]));
  return JSON.parse(await text(child.stdout))[0];
}

function fieldOf(name) {
  return String(BigInt(`0x${createHash('sha256').update(name).digest('hex')}`) % bn254.fields.Fr.ORDER);
}
