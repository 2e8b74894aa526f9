import { cp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkpointIn } from '../../src/credentials/log-key.js';
import { SignedNotes, eventsOf, relayMany } from '../checkpoints/signed-log.js';
import { Store } from '../cli/credence.js';
import { becomes, eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { ThreeNodes } from '../servers/three-nodes.js';
import { Progress, SEED, limit, longCases, randomFrom, repeated } from './faults.js';

/** Whatever is killed, and whichever copy of the folder comes back: one log is signed, and nothing else. */

const random = randomFrom(SEED);

const sizeOf = (note: string) => (note === '' ? 0 : checkpointIn(note).size);

const ROUNDS = repeated(5, 5);
/** Each so many rounds, an older copy of the data folder is served for a while. */
const RESTORED = 5;

test(
  `${ROUNDS} rounds of kill -9 and of older copies: every signed checkpoint is of the same log; seed ${SEED}`,
  async () => {
    const store = await Store.create({ isBuilt: true });
    const keyFile = join(store.folder, 'log-key.json');
    store.variables['CREDENCE_LOG_KEY'] = keyFile;
    expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
    const notes = new SignedNotes(() => readFile(`${keyFile}.checkpoint`, 'utf8').catch(() => ''));
    const start = () =>
      Server.start({ data: store.data, env: { CREDENCE_LOG_KEY: keyFile, CREDENCE_RATE_LIMIT: '0' } });
    const [right, copy] = [join(store.folder, 'right'), join(store.folder, 'copy')];
    const progress = new Progress('kill -9 of a server that signs', ROUNDS);
    notes.watch();
    try {
      for (let round = 0; round < ROUNDS; round++) {
        let server = await start();
        const relayed = relayMany(server).then((taken) => (taken > 0 ? relayMany(server) : 0));
        // A checkpoint is recorded within 1.5 s, and signed within 0.5 s of it.
        await sleep(random() * 3_500);
        const isRestored = round % RESTORED === RESTORED - 1;
        if (isRestored) {
          // The copy is older than the signed log if events that it lacks are signed.
          const newest = await relayMany(server);
          // A checkpoint follows after 1,000 more events. A loop of relays would only keep the projection from it.
          await relayMany(server);
          await becomes(notes.look.bind(notes), (note) => sizeOf(note) > newest);
        }
        await server.kill();
        await relayed;
        if (round % RESTORED === 0) {
          await cp(store.data, copy, { recursive: true, filter: (path) => !path.endsWith('.sock') });
        }
        if (isRestored) {
          const last = await notes.look();
          await rename(store.data, right);
          await rename(copy, store.data);
          server = await start();
          // It becomes longer than the log that was signed.
          while ((await relayMany(server)) <= sizeOf(last));
          await sleep(1_000 + random() * 2_000);
          await server.kill();
          expect(await notes.look()).toBe(last);
          await rm(store.data, { recursive: true });
          await rename(right, store.data);
        }
        progress.step();
      }
      const server = await start();
      const before = notes.count;
      await relayMany(server);
      await becomes(notes.look.bind(notes), () => notes.count > before);
      await server.stop();
      notes.expectNoForkOf(eventsOf((await store.run('export')).stdout));
      progress.end(`${notes.count} signed checkpoints, no fork`);
    } finally {
      notes.end();
      await store.remove();
    }
  },
  limit(600_000),
);

/** Told to a process that is killed at a step of making a checkpoint, once it is armed. */
const endingAt = (step: string) => ({
  NODE_OPTIONS: `--import ${new URL('./processes/ending-at-step.mjs', import.meta.url)}`,
  END_AT: step,
});

/** @param api relays; both are one process in the embedded profile */
async function endedAt(step: string, ending: Server, api = ending): Promise<void> {
  await relayMany(api);
  await ending.exit;
  expect(ending.errors.join('')).toContain(`ended at ${step}\n`);
  await ending.kill();
}

/** What the killed process has recorded is signed, and then a checkpoint of the next one. */
async function expectSigned(notes: SignedNotes, api: Server): Promise<void> {
  for (let n = 0; n < 2; n++) {
    const before = notes.count;
    expect(await relayMany(api)).toBeGreaterThan(0);
    await becomes(notes.look.bind(notes), () => notes.count > before);
  }
}

/** One log was signed, and the rows of its tree are what a fold of it comes to. */
async function expectOneLog(notes: SignedNotes, store: Store): Promise<void> {
  notes.expectNoForkOf(eventsOf((await store.run('export')).stdout));
  // Progress is all that it may say.
  expect(await store.run('verify')).toMatchObject({ code: 0, stderr: expect.stringMatching(/^(Verifying .*\n)*$/) });
}

const createKey = async (store: Store) => expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);

const WITH_A_FILE = longCases(
  ['appending', 'draft'],
  ['append', 'appended', 'fold', 'folding', 'folded', 'sign', 'rename', 'kept'],
);

test.each(WITH_A_FILE)(
  'a server killed at "%s" of its first checkpoint and of a later one: the next ones sign the same log',
  async (step) => {
    const store = await Store.create({ isBuilt: true });
    const keyFile = join(store.folder, 'log-key.json');
    store.variables['CREDENCE_LOG_KEY'] = keyFile;
    const notes = new SignedNotes(() => readFile(`${keyFile}.checkpoint`, 'utf8').catch(() => ''));
    const start = (more: Record<string, string> = {}) =>
      Server.start({ data: store.data, env: { CREDENCE_LOG_KEY: keyFile, CREDENCE_RATE_LIMIT: '0', ...more } });
    try {
      for (const isFirst of [true, false]) {
        const last = await notes.look();
        const ending = await start(endingAt(step));
        const events = await ending.head();
        ending.child.kill('SIGUSR2');
        // Without a key it makes none.
        if (isFirst) await createKey(store);
        await endedAt(step, ending);
        const note = await notes.look();
        // The server before may have recorded a checkpoint that it did not sign. That one is of no more events than these.
        if (step === 'kept') expect(note).not.toBe(last);
        else expect(sizeOf(note)).toBeLessThanOrEqual(events);
        const next = await start();
        await expectSigned(notes, next);
        await next.stop();
      }
      await expectOneLog(notes, store);
    } finally {
      await store.remove();
    }
  },
  limit(180_000),
);

/** As a server publishes them. */
const notesOf = ({ url }: Server) =>
  new SignedNotes(async () => {
    const answer = await fetch(`${url}/log/checkpoint`).catch(() => undefined);
    return answer?.status === 200 ? answer.text() : '';
  });

const IN_POSTGRESQL = longCases(
  ['keeping'],
  ['append', 'appending', 'appended', 'fold', 'folding', 'folded', 'sign', 'keep', 'draft', 'rename', 'kept'],
);

describeOnOwnCluster('a worker with a log key', () => {
  let cluster: Cluster;
  let store: Store;
  let api: Server;
  let notes: SignedNotes;
  const startWorker = (more: Record<string, string> = {}) =>
    Server.process({ ...store.variables, CREDENCE_ROLES: 'worker', ...more }, cluster.key);
  beforeAll(async () => {
    [cluster, store] = await Promise.all([Cluster.start(), Store.create({ isBuilt: true })]);
    Object.assign(store.variables, cluster.env, { CREDENCE_LOG_KEY: join(cluster.folder, 'log-key.json') });
    // It builds the first generation, without which the other one is not ready.
    const first = startWorker();
    api = await Server.process({ ...store.variables, CREDENCE_ROLES: 'api', CREDENCE_RATE_LIMIT: '0' }, cluster.key);
    await (await first).stop();
    notes = notesOf(api);
  }, limit(180_000));
  afterAll(async () => {
    await api.stop();
    await Promise.all([cluster.stop(), store.remove()]);
  }, limit(180_000));

  test.each(IN_POSTGRESQL)(
    'killed at "%s" of a checkpoint: the next worker signs the same log',
    async (step) => {
      const last = await notes.look();
      const ending = await startWorker(endingAt(step));
      ending.child.kill('SIGUSR2');
      if (last === '') await createKey(store);
      await endedAt(step, ending, api);
      const isKept = (await notes.look()) !== last;
      if (step !== 'keeping') expect(isKept).toBe(['draft', 'rename', 'kept'].includes(step));
      const next = await startWorker();
      await expectSigned(notes, api);
      await next.stop();
      await expectOneLog(notes, store);
    },
    limit(180_000),
  );

  test(
    'signs nothing of an older export that was imported into empty databases',
    async () => {
      if ((await notes.look()) === '') await createKey(store);
      const worker = await startWorker();
      await expectSigned(notes, api);
      const older = join(store.folder, 'older.ndjson');
      expect(await store.run('export', '--out', older)).toMatchObject({ code: 0 });
      await expectSigned(notes, api);
      await worker.stop();
      const last = await notes.look();
      const [restored, other] = await Promise.all([Cluster.start(), Store.create({ isBuilt: true })]);
      // The log knows the keys by their digests.
      const { CREDENCE_LOG_KEY, CREDENCE_API_KEYS } = store.variables;
      Object.assign(other.variables, restored.env, { CREDENCE_LOG_KEY, CREDENCE_API_KEYS });
      try {
        expect(await other.run('import', older)).toMatchObject({ code: 0 });
        const server = await Server.process({ ...other.variables, CREDENCE_RATE_LIMIT: '0' }, cluster.key);
        const detail = async (): Promise<string> => {
          const { json } = await server.send('GET', '/health/ready');
          return json.checks.find(({ name }: { name: string }) => name === 'checkpoints').detail;
        };
        await becomes(detail, (text) => text.startsWith('warning: log_not_signed: the log has '));
        for (let n = 0; n < 4; n++) expect(await relayMany(server)).toBeGreaterThan(0);
        // It is longer than the log that was signed.
        await becomes(detail, (text) => text.startsWith('warning: log_not_signed: the root of its first '));
        expect(await notesOf(server).look()).toBe(last);
        await server.stop();
      } finally {
        await Promise.all([restored.stop(), other.remove()]);
      }
    },
    limit(180_000),
  );
});

const WORKER_ROUNDS = repeated(2, 2);
/** Longer than a lease of the projector. */
const SUSPENDED_MS = 12_000;

describeOnOwnCluster('two workers with one log key', () => {
  test(
    `of which one is killed or suspended sign one log; ${WORKER_ROUNDS} rounds, seed ${SEED}`,
    async () => {
      const cluster = await Cluster.start();
      const env = { ...cluster.env, CREDENCE_LOG_KEY: join(cluster.folder, 'log-key.json'), CREDENCE_RATE_LIMIT: '0' };
      const store = await Store.create({ isBuilt: true });
      Object.assign(store.variables, env);
      expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
      const startWorker = () => Server.process({ ...env, CREDENCE_ROLES: 'worker' }, cluster.key);
      const [api, ...workers] = await Promise.all([
        Server.process({ ...env, CREDENCE_ROLES: 'api' }, cluster.key),
        startWorker(),
        startWorker(),
      ]);
      const notes = notesOf(api);
      const progress = new Progress('kills and pauses of workers that sign', WORKER_ROUNDS);
      notes.watch();
      try {
        for (let round = 0; round < WORKER_ROUNDS; round++) {
          const n = Math.floor(random() * 2);
          await relayMany(api);
          await sleep(random() * 2_500);
          if (round % 2 === 0) {
            await workers[n]!.kill();
            workers[n] = await startWorker();
          } else {
            workers[n]!.child.kill('SIGSTOP');
            await relayMany(api);
            await sleep(SUSPENDED_MS);
            workers[n]!.child.kill('SIGCONT');
          }
          const before = notes.count;
          await relayMany(api);
          await becomes(notes.look.bind(notes), () => notes.count > before);
          progress.step();
        }
        notes.end();
        notes.expectNoForkOf(eventsOf((await store.run('export')).stdout));
        progress.end(`${notes.count} signed checkpoints, no fork`);
      } finally {
        notes.end();
        for (const { child } of workers) child.kill('SIGCONT');
        await Promise.all([api, ...workers].map((server) => server.stop()));
        await Promise.all([cluster.stop(), store.remove()]);
      }
    },
    limit(600_000),
  );
});

const LEADERS = repeated(1, 1);

describeOnOwnCluster('a log of three nodes of EventStoreDB', () => {
  test(
    `of which ${LEADERS} leaders are killed under relays is signed without a fork`,
    async () => {
      const nodes = await ThreeNodes.start();
      const given = { ...nodes.nodes[0]!, url: nodes.url, stop: async () => undefined };
      const cluster = await Cluster.start({ given });
      const store = await Store.create({ isBuilt: true });
      Object.assign(store.variables, cluster.env, { CREDENCE_LOG_KEY: join(cluster.folder, 'log-key.json') });
      expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
      const server = await Server.process({ ...store.variables, CREDENCE_RATE_LIMIT: '0' }, cluster.key);
      const notes = notesOf(server);
      const progress = new Progress('leaders killed under a service that signs', LEADERS);
      try {
        for (let round = 0; round < LEADERS; round++) {
          await nodes.complete();
          await eventually(async () => (await relayMany(server)) > 0, 'relays');
          const lost = (await becomes(nodes.leader.bind(nodes), (node) => node !== undefined))!;
          const relayed = relayMany(server);
          await sleep(random() * 1_500);
          await lost.kill();
          await relayed;
          const before = notes.count;
          const signed = async () =>
            (await relayMany(server)) > 0 && (await notes.look()) !== '' && notes.count > before;
          await nodes.withRestarts(lost, eventually(signed, 'a checkpoint in the log of the next leader'));
          progress.step();
        }
        await nodes.complete();
        notes.expectNoForkOf(eventsOf((await store.run('export')).stdout));
        progress.end(`${notes.count} signed checkpoints, no fork`);
      } finally {
        await server.stop();
        await Promise.all([cluster.stop(), store.remove()]);
        await nodes.stop();
      }
    },
    limit(900_000),
  );
});
