import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { leafOf, treeOf, verifyCheckpoint, verifyProof } from '../../clients/typescript/src/audit.js';
import { noPython } from '../audit/python.js';
import { refusalOf } from '../audit/reference.js';
import { eventually } from '../contracts/harness.js';
import { runCommand } from '../servers/launch.js';
import { Server, environmentOf } from './server.js';

/** Checkpoints and proofs of a log that is signed, as a stranger gets and verifies them. */

/** ms; a time limit for a busy machine. */
const LONG = 180_000;

const folder = mkdtempSync(join(tmpdir(), 'credence-signed-'));
afterAll(() => rmSync(folder, { recursive: true }));
const KEY = { CREDENCE_LOG_KEY: join(folder, 'log-key.json') };

async function credence(data: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(args, { ...(await environmentOf(data)), ...KEY });
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  return stdout.trim();
}

test(
  'a checkpoint and a tlog-proof are verified with the key of the operator, in TypeScript and in Python',
  async () => {
    await credence(folder, 'signing-keys', 'create', '--log');
    const signing = await Server.start({ env: KEY });
    try {
      await signing.relay({ tris_id: 'tris:signed' });
      const checkpoint = () => fetch(`${signing.url}/log/checkpoint`);
      await eventually(async () => (await checkpoint()).status === 200, 'a checkpoint');
      const answer = await checkpoint();
      expect([answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
        'text/plain; charset=utf-8',
        'public, max-age=1',
      ]);
      const note = await answer.text();
      const keys = await credence(signing.data, 'signing-keys', 'verifier-key');
      const tree = await verifyCheckpoint(note, { keys });
      await credence(signing.data, 'export', '--out', join(folder, 'signed.ndjson'));
      const exported = readFileSync(join(folder, 'signed.ndjson'), 'utf8').trimEnd().split('\n').slice(0, -1);
      expect(Buffer.from(tree.root)).toEqual(Buffer.from(treeOf(exported.slice(0, tree.size).map(leafOf)).root));
      // The newest event is one of the checkpoint itself, or a later one.
      const [first, newest] = [exported[0]!, exported.at(-1)!].map((line) => ({ line, ...JSON.parse(line) }));
      const logId = String((await signing.relay()).headers['credence-position']).split('.')[0];
      const proofFor = async ({ position }: { position: number }) =>
        (await signing.get(`/v1/audit/inclusion?position=${logId}.${position}`)).json.tlog_proof;
      expect(await proofFor(newest)).toBeNull();
      const file = await proofFor(first);
      expect(await verifyProof(file, leafOf(first.line), { keys })).toMatchObject({ index: 0, checkpoint: tree });
      const changed = file.replace('index 0', 'index 1');
      await refusalOf(() => verifyProof(changed, leafOf(first.line), { keys }));
      if (noPython !== undefined) return;
      const files = { 'event.json': `${first.line}\n`, 'event.tlog-proof': file, 'changed.tlog-proof': changed };
      for (const [name, text] of Object.entries({ ...files, 'checkpoint.txt': note })) {
        writeFileSync(join(folder, name), text);
      }
      const python = (...args: string[]) => {
        const paths = args.map((arg) => (/\./.test(arg) && !arg.includes('+') ? join(folder, arg) : arg));
        return spawnSync('python3', ['-B', 'examples/verify.py', ...paths, '--key', keys], { encoding: 'utf8' }).stdout;
      };
      expect(python('checkpoint', 'checkpoint.txt', '--export', 'signed.ndjson')).toMatch(
        /^The checkpoint is of the first/,
      );
      expect(python('inclusion', 'event.tlog-proof', 'event.json')).toMatch(/^The event is number 0 of /);
      expect(python('inclusion', 'changed.tlog-proof', 'event.json')).toMatch(/^refused \(mismatch\)/);
    } finally {
      await signing.end();
    }
  },
  LONG,
);
