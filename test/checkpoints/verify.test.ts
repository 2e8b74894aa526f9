import { cp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checkpointIn } from '../../src/credentials/log-key.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { addLeaf, base64Of, leafOf, rootOfPeaks } from '../../src/kernel/merkle.js';
import type { VerifyResult } from '../../src/read-side/verify.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { mostBytes, readEntry, writeEntry } from '../../src/stores/lmdb/stored-event.js';
import { becomes } from '../contracts/harness.js';
import { SLOW, Store } from '../cli/credence.js';
import { Server } from '../e2e/server.js';

/** `verify` finds an event that was rewritten with the writer of the log, as long as something of the tree is intact. */

let store: Store;
let keyFile: string;
beforeAll(async () => {
  store = await Store.create();
  keyFile = join(store.folder, 'elsewhere', 'log-key.json');
  store.variables['CREDENCE_LOG_KEY'] = keyFile;
  await store.run('signing-keys', 'create', '--log');
  const server = await Server.start({ data: store.data, env: { CREDENCE_LOG_KEY: keyFile } });
  const action = { action_type: 'trade_flags', category: 'finance', criticality: 'high', platform_id: 'lender' };
  const actions = Array.from({ length: 1_200 }, (_, n) => ({ ...action, tris_id: `tris:${n}` }));
  for (const part of [actions.slice(0, 600), actions.slice(600)]) {
    expect((await server.send('POST', '/v1/decision-relay/batch', { body: { actions: part } })).status).toBe(200);
  }
  const kept = () => readFile(`${keyFile}.checkpoint`, 'utf8').catch(() => '');
  await becomes(kept, (text) => text !== '' && checkpointIn(text).size > 1_000);
  await server.stop();
  await cp(store.data, join(store.folder, 'right'), { recursive: true });
}, SLOW);
beforeEach(async () => {
  await rm(store.data, { recursive: true });
  await cp(join(store.folder, 'right'), store.data, { recursive: true });
});
afterAll(() => store.remove());

/** Rewrites events; their checksums are right. */
async function rewrite(changed: (event: RecordedEvent) => RecordedEvent): Promise<void> {
  const databases = { events: { encoding: 'binary', keyEncoding: 'uint32' } } as const;
  const env = await LmdbEnvironment.open(join(store.data, 'log'), { databases });
  const events = env.database<Buffer, number>('events');
  const entries = [...events.getRange({})].map(({ key, value }) => ({ key, bytes: Buffer.from(value) }));
  await env.write(() => {
    for (const { key, bytes } of entries) {
      const before = readEntry(bytes, bytes.length, key);
      const event = changed(before);
      if (event === before) continue;
      const entry = Buffer.alloc(mostBytes(event.stream, JSON.stringify(event).length));
      events.putSync(key, Buffer.from(entry.subarray(0, writeEntry(entry, 0, event))));
    }
  });
  await env.close();
}

const praised = (event: RecordedEvent): RecordedEvent =>
  event.data['tris_id'] === 'tris:700' && event.type === 'ActionRelayed'
    ? { ...event, data: { ...event.data, metric: 'finance_trade_praise' } }
    : event;

async function positionOfPraise(): Promise<number> {
  let found = 0;
  await rewrite((event) => {
    if (praised(event) !== event) found = event.position;
    return praised(event);
  });
  expect(found).toBeGreaterThan(600);
  return found;
}

/** Folds the read models again, tiles included. */
async function forget(): Promise<void> {
  await rm(join(store.data, 'views'), { recursive: true });
  // Without its key.
  await (await Server.start({ data: store.data })).stop();
}

async function verified() {
  const { code, stdout } = await store.run('verify', '--json');
  return { code, ...(JSON.parse(stdout) as VerifyResult & { identical: boolean }) };
}

test(
  'an intact log has the root of its checkpoints',
  async () => {
    const { code, tree, identical } = await verified();
    expect({ code, identical, tree }).toMatchObject({
      code: 0,
      identical: true,
      tree: { change: null },
    });
    expect(tree!.checkpoints).toBeGreaterThan(1);
    expect((await store.run('verify')).stdout).toContain(`checkpoints: ${tree!.root}`);
  },
  SLOW,
);

test(
  'while the tiles are intact, the position is named',
  async () => {
    const position = await positionOfPraise();
    const { code, tree } = await verified();
    expect({ code, tree }).toMatchObject({ code: 1, tree: { change: { position, found_by: 'tile' } } });
    expect((await store.run('verify')).stdout).toContain(`CHANGED: the event at position ${position} is not`);
  },
  SLOW,
);

test(
  'if the tiles were folded again, a recorded checkpoint finds it',
  async () => {
    const position = await positionOfPraise();
    await forget();
    const { code, difference, tree } = await verified();
    expect({ code, difference }).toEqual({ code: 1, difference: null });
    expect(tree!.change!.found_by).toBe('checkpoint');
    expect(tree!.change!.after).toBeLessThan(position);
    expect(tree!.change!.position).toBeGreaterThanOrEqual(position);
  },
  SLOW,
);

test(
  'if the recorded checkpoints were rewritten, too, the signed one finds it',
  async () => {
    const peaks: string[] = [];
    const roots: string[] = [];
    await rewrite((event) => {
      const size = event.data['size'] as number;
      const next = event.type === 'LogCheckpointed' ? { ...event, data: { size, root: roots[size]! } } : praised(event);
      addLeaf(peaks, roots.length === 0 ? 0 : roots.length - 1, leafOf(next));
      if (roots.length === 0) roots.push('');
      roots.push(base64Of(rootOfPeaks(peaks)));
      return next;
    });
    await forget();
    const { code, tree } = await verified();
    expect({ code, tree }).toMatchObject({ code: 1, tree: { change: { found_by: 'signed_checkpoint' } } });
    await rm(`${keyFile}.checkpoint`);
    expect((await verified()).identical).toBe(true); // Nothing of the right log is left here.
  },
  SLOW,
);
