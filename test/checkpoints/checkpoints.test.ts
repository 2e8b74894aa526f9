import { createHash, createPublicKey, verify } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { leafOf, nodeHash, rootOf } from '../../src/kernel/merkle.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { verifyCheckpoint } from '../../clients/typescript/src/audit.js';
import { checkpointIn, verifierKey } from '../../src/credentials/log-key.js';
import { becomes } from '../contracts/harness.js';
import { Store, SLOW } from '../cli/credence.js';
import { Server } from '../e2e/server.js';
import { eventsOf, relayMany } from './signed-log.js';

/** Checkpoints of the log of a server whose key is kept elsewhere. */

let store: Store;
let keyFile: string;
beforeEach(async () => {
  store = await Store.create();
  keyFile = join(store.folder, 'elsewhere', 'log-key.json');
  store.variables['CREDENCE_LOG_KEY'] = keyFile;
});
afterEach(() => store.remove());

const noteFile = () => `${keyFile}.checkpoint`;
const start = () => Server.start({ data: store.data, env: { CREDENCE_LOG_KEY: keyFile } });
const note = () => readFile(noteFile(), 'utf8').catch(() => '');

const exported = async () => eventsOf((await store.run('export')).stdout);

async function rootIn(events: readonly RecordedEvent[], size: number): Promise<string> {
  const levels = [events.slice(0, size).map(leafOf)];
  while (levels.at(-1)!.length >= 256) {
    const below = levels.at(-1)!;
    const above: string[] = [];
    for (let at = 0; at + 256 <= below.length; at += 256) {
      let row = below.slice(at, at + 256);
      while (row.length > 1)
        row = Array.from({ length: row.length / 2 }, (_, n) => nodeHash(row[2 * n]!, row[2 * n + 1]!));
      above.push(row[0]!);
    }
    levels.push(above);
  }
  const root = await rootOf(size, async (level, index) => levels[level]![index]!);
  return Buffer.from(root, 'base64url').toString('base64');
}

/** Checks it as a stranger would, with the key in the form of C2SP. */
async function checked(text: string) {
  const [, signed, name, signature] = /^([^]*\n)\n— (\S+) (\S+)\n$/.exec(text)!;
  const { keys } = JSON.parse(await readFile(keyFile, 'utf8')) as { keys: { x: string }[] };
  const { origin, size, root } = checkpointIn(text);
  expect(name).toBe(origin);
  const [, hash, key] = /^\S+\+([0-9a-f]{8})\+(\S+)$/.exec(verifierKey(origin, keys[0]!.x))! as unknown as string[];
  const bytes = Buffer.from(signature!, 'base64');
  expect(bytes.subarray(0, 4).toString('hex')).toBe(hash);
  const id = createHash('sha256').update(`${origin}\n`).update(Buffer.from(key!, 'base64')).digest('hex').slice(0, 8);
  expect(id).toBe(hash);
  const x = Buffer.from(key!, 'base64').subarray(1).toString('base64url');
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  expect(verify(null, Buffer.from(signed!), publicKey, bytes.subarray(4))).toBe(true);
  return { origin, size, root };
}

const checkOf = async (server: Server) => {
  const { json } = await server.send('GET', '/health/ready');
  return (json.checks as { name: string; detail: string }[]).find(({ name }) => name === 'checkpoints')!.detail;
};
const metricOf = async (server: Server) =>
  /^credence_log_signing_stopped (\d)/m.exec((await server.send('GET', '/metrics')).text)![1];

test(
  'a key that is named and missing is told, until it is there',
  async () => {
    const server = await start();
    await becomes(
      () => metricOf(server),
      (stopped) => stopped === '1',
    );
    expect(server.errors.join('')).toContain(`log_not_signed: CREDENCE_LOG_KEY names ${keyFile}, which does not exist`);
    expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
    await becomes(
      () => metricOf(server),
      (stopped) => stopped === '0',
    );
    await becomes(note, (text) => text !== '');
    await server.stop();
  },
  SLOW,
);

test(
  'with a key, checkpoints stand in the log and are signed, and each is of the events before it',
  async () => {
    expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
    const server = await start();
    await becomes(note, (text) => text !== '');
    const first = await checked(await note());
    expect(await relayMany(server)).toBeGreaterThan(0);
    await becomes(note, (text) => text !== '' && checkpointIn(text).size > 1_000);
    const second = await checked(await note());
    expect(second.origin).toBe(first.origin);
    await server.stop();
    const events = await exported();
    for (const { size, root } of [first, second]) expect(await rootIn(events, size)).toBe(root);
    const inLog = events.filter(({ stream }) => stream === 'checkpoints');
    expect(inLog.map(({ type, revision }) => [type, revision])).toEqual([
      ['LogOriginBegun', 0],
      ['LogCheckpointed', 1],
      ['LogCheckpointed', 2],
    ]);
    expect(inLog.at(-1)!.data).toEqual({ size: second.size, root: second.root });
    const { json } = { json: JSON.parse((await store.run('verify', '--json')).stdout) as { difference: unknown } };
    expect(json.difference).toBeNull();
  },
  SLOW,
);

test(
  'without a key there are none, and a quiet log has no more than one',
  async () => {
    const server = await start();
    expect(await relayMany(server)).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect((await exported()).filter(({ stream }) => stream === 'checkpoints')).toEqual([]);
    expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
    await becomes(note, (text) => text !== '');
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    await server.stop();
    expect((await exported()).filter(({ type }) => type === 'LogCheckpointed')).toHaveLength(1);
  },
  SLOW,
);

test(
  'a log that was replaced by an older copy is not signed, until an operator begins a new origin',
  async () => {
    await store.run('signing-keys', 'create', '--log');
    let server = await start();
    await becomes(note, (text) => text !== '');
    await server.stop();
    const copy = join(store.folder, 'copy');
    await cp(store.data, copy, { recursive: true });

    server = await start();
    expect(await relayMany(server)).toBeGreaterThan(0);
    await becomes(note, (text) => checkpointIn(text).size > 1_000);
    const last = await note();
    expect(await checkOf(server)).toBe('nothing is wrong');
    await server.stop();

    await rm(store.data, { recursive: true });
    await cp(copy, store.data, { recursive: true });
    server = await start();
    await becomes(
      () => checkOf(server),
      (detail) => detail.startsWith('warning: log_not_signed: the log has '),
    );
    // Also once it is as long as the signed one, and whatever happens in it.
    expect(await relayMany(server)).toBeGreaterThan(0);
    expect(await relayMany(server)).toBeGreaterThan(0);
    await becomes(
      () => checkOf(server),
      (detail) => detail.startsWith('warning: log_not_signed: the root of its first '),
    );
    expect(await metricOf(server)).toBe('1');
    expect(server.errors.join('')).toMatch(/log_not_signed: the log has \d+ events, and \d+ were signed/);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await note()).toBe(last);
    expect(await store.run('backup', join(store.folder, 'backup'))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/the log does not begin with the [\d,]+ events that were signed/),
    });

    const { code, stdout } = await store.run('signing-keys', 'new-origin', '--reason', 'restored_backup');
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/origin credence\.log\/[0-9a-f]{32} /),
    });
    await becomes(note, (text) => text !== last);
    const next = await checked(await note());
    expect(next.origin).not.toBe(checkpointIn(last).origin);
    await becomes(
      () => metricOf(server),
      (value) => value === '0',
    );
    await server.stop();
    const events = await exported();
    expect(await rootIn(events, next.size)).toBe(next.root);
    expect(events.find(({ type, revision }) => type === 'LogOriginBegun' && revision > 0)!.data).toMatchObject({
      replaces: checkpointIn(last).origin,
      reason_code: 'restored_backup',
    });
  },
  SLOW,
);

test(
  'the key of another log signs nothing of this one',
  async () => {
    await store.run('signing-keys', 'create', '--log');
    let server = await start();
    await becomes(note, (text) => text !== '');
    await server.stop();
    const last = await note();
    await rm(store.data, { recursive: true });
    server = await start();
    await becomes(
      () => checkOf(server),
      (detail) => detail.includes('the key has signed checkpoints of credence.log/'),
    );
    await server.stop();
    expect(await note()).toBe(last);
    expect(existsSync(`${noteFile()}.tmp`)).toBe(false);
  },
  SLOW,
);

test(
  'a key file that is damaged is said once, and signs once it is whole',
  async () => {
    await store.run('signing-keys', 'create', '--log');
    const whole = await readFile(keyFile, 'utf8');
    await writeFile(keyFile, whole.slice(0, 20));
    const server = await start();
    await becomes(
      () => checkOf(server),
      (detail) => detail.includes('no checkpoint can be signed: '),
    );
    // Several rounds.
    for (let n = 0; n < 30; n++) {
      expect(await metricOf(server)).toBe('1');
      await sleep(100);
    }
    const said = server.errors.join('').match(/log_not_signed: no checkpoint can be signed/g);
    expect(said).toHaveLength(1);
    await writeFile(keyFile, whole);
    await becomes(note, (text) => text !== '');
    await becomes(
      () => metricOf(server),
      (stopped) => stopped === '0',
    );
    await server.stop();
  },
  SLOW,
);

test(
  'after a rotation the next key signs, and a revoked key signs nothing more',
  async () => {
    await store.run('signing-keys', 'create', '--log');
    const server = await start();
    const keys = async () => (await store.run('signing-keys', 'verifier-key')).stdout.trimEnd().split('\n');
    /** The next checkpoint. It is signed by one of the keys, and by none of the others. */
    const signedBy = async (key: string, others: string[]) => {
      const { size } = checkpointIn(await note());
      expect(await relayMany(server)).toBeGreaterThan(0);
      await becomes(note, (text) => checkpointIn(text).size >= size + 1_000);
      const next = await note();
      expect(await verifyCheckpoint(next, { keys: [...others, key] })).toMatchObject({ size: checkpointIn(next).size });
      await expect(verifyCheckpoint(next, { keys: others })).rejects.toThrow('no signature by');
      return checkpointIn(next);
    };
    await becomes(note, (text) => text !== '');
    const [first, ...none] = (await keys()) as [string];
    expect(none).toEqual([]);
    const { origin } = await verifyCheckpoint(await note(), { keys: first });
    expect(await store.run('signing-keys', 'rotate', '--log', '--at-once')).toMatchObject({ code: 0, stderr: '' });
    const [, second] = (await keys()) as [string, string];
    expect(await keys()).toEqual([first, second]);
    await signedBy(second, [first]);
    const listed = await store.json<{ kid: string; status: string }[]>('signing-keys', 'list', '--log');
    expect(listed.map(({ status }) => status)).toEqual(['retired', 'signing']);
    const { kid } = listed[1]!;
    expect(await store.run('signing-keys', 'revoke', '--log', '--overlap', '--', kid)).toMatchObject({ code: 2 });
    expect(await store.run('signing-keys', 'revoke', '--log', '--', kid)).toEqual({
      code: 0,
      stdout: expect.stringMatching(new RegExp(`^revoked ${kid}; \\S+ signs from now\n$`)),
      stderr: '', // No secret of a webhook follows from it.
    });
    const [, third] = (await keys()) as [string, string];
    expect(await keys()).toEqual([first, third]);
    expect(await signedBy(third, [first, second])).toMatchObject({ origin });
    expect(Object.keys(JSON.parse(await readFile(keyFile, 'utf8')))).toEqual(['keys']);
    await server.stop();
  },
  SLOW,
);
