import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventStoreDBClient } from '@eventstore/db-client';
import type { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Follower } from '../../src/read-side/follower.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { relayMany } from '../checkpoints/signed-log.js';
import { Store, actions } from '../cli/credence.js';
import { becomes, eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';

/** ms; a time limit for a busy machine. */
const LONG = 240_000;

describeOnOwnCluster('streams that an operator has deleted or truncated in EventStoreDB', () => {
  let cluster: Cluster;
  let store: Store;
  let client: EventStoreDBClient;
  const closing: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    [cluster, store] = await Promise.all([Cluster.start({ onDisk: true }), Store.create({ isBuilt: true })]);
    const { CREDENCE_DATA: _, ...stores } = cluster.env;
    Object.assign(store.variables, stores);
    client = EventStoreDBClient.connectionString(cluster.eventStored.url);
    const file = store.file('actions.ndjson', actions(10));
    expect(await store.run('import', file)).toMatchObject({ code: 0 });
  }, LONG);
  afterAll(async () => {
    for (const close of closing) await close();
    await client?.dispose();
    await cluster?.stop();
    await store?.remove();
  });

  /** The streams of actions that are in the log, whether they can be read one by one or not. */
  async function actionStreams(): Promise<string[]> {
    const streams = new Set<string>();
    for await (const { event } of client.readAll())
      if (event?.streamId.startsWith('action-')) streams.add(event.streamId);
    return [...streams];
  }

  /** The names that a command prints, and how it ends. */
  async function named(...args: string[]): Promise<{ code: number | null; names: string[] }> {
    const { code, stdout, stderr } = await store.run(...args);
    return { code, names: [...new Set(`${stdout}${stderr}`.match(/\baction-[\w:.-]+/g))].sort() };
  }

  const firstEvents = async (stream: string) => {
    for await (const { event } of client.readAll()) if (event?.streamId === stream) return event.revision;
    return undefined;
  };

  test(
    'are named by verify and by each rebuild, before and after the server frees their space',
    async () => {
      expect(await named('verify')).toEqual({ code: 0, names: [] });
      expect(await store.json('rebuild', 'all', '--swap')).not.toHaveProperty('hidden_streams');
      const [deleted, truncated, gone, short, bounded, shared, returned] = (await actionStreams()) as string[];
      await client.deleteStream(deleted!);
      await client.setStreamMetadata(truncated!, { truncateBefore: 1 });
      await client.tombstoneStream(gone!);
      await client.setStreamMetadata(short!, { maxCount: 1 });
      await client.setStreamMetadata(bounded!, { maxCount: 100 });
      await client.setStreamMetadata(shared!, { acl: { readRoles: ['$all'] } });
      await client.deleteStream(returned!);
      // The server makes a truncation of the first change of a deleted stream.
      await client.setStreamMetadata(returned!, {});
      await client.setStreamMetadata(returned!, {});
      const hidden = [deleted, truncated, gone, short].sort();
      expect(await named('verify')).toEqual({ code: 1, names: hidden });
      expect(await store.json('rebuild', 'all', '--swap')).toMatchObject({ hidden_streams: hidden });

      await fetch(`http://127.0.0.1:${cluster.eventStored.port}/admin/scavenge`, { method: 'POST' });
      await eventually(async () => (await firstEvents(truncated!)) === 1n, 'the scavenge');
      expect(await named('rebuild', 'all', '--swap')).toEqual({ code: 0, names: hidden });
      expect(await named('verify')).toEqual({ code: 1, names: hidden });
    },
    LONG,
  );

  test('are in the log of a worker that builds its read models again', async () => {
    const { path, remove } = await temporaryFolder();
    const log = await EventStoreDbEventStore.open({ url: cluster.eventStored.url });
    const models = await LmdbReadModels.open(path, { clock: Date.now });
    closing.push(
      () => models.close(),
      () => log.close(),
      remove,
    );
    const { views } = await ensureManifest(PROJECTIONS, log, models);
    const warnings: string[] = [];
    const logger = { warn: (text: string) => void warnings.push(text) } as unknown as Logger;
    const { signal } = new AbortController();
    expect(await new Follower(log, models).follow(views['identities']!, { signal, toHead: true, logger })).toBe(
      'at_head',
    );
    expect(warnings).toEqual([
      expect.stringMatching(/^g1 lacks events of 4 streams, .* deleted or truncated in EventStoreDB, such as action-/),
    ]);
  });
});

describeOnOwnCluster('a log with a key of checkpoints', () => {
  test(
    'is signed no more once a stream is deleted in EventStoreDB, and the service names the stream',
    async () => {
      const [cluster, store] = await Promise.all([Cluster.start(), Store.create({ isBuilt: true })]);
      const client = EventStoreDBClient.connectionString(cluster.eventStored.url);
      const env = { ...cluster.env, CREDENCE_LOG_KEY: join(cluster.folder, 'log-key.json') };
      Object.assign(store.variables, env);
      expect((await store.run('signing-keys', 'create', '--log')).code).toBe(0);
      const server = await Server.process(env, cluster.key);
      try {
        const signed = async () => {
          const answer = await fetch(`${server.url}/log/checkpoint`);
          return answer.ok ? answer.text() : '';
        };
        const detail = async (): Promise<string> => {
          const { json } = await server.send('GET', '/health/ready');
          return json.checks.find(({ name }: { name: string }) => name === 'checkpoints').detail;
        };
        await server.relay();
        await becomes(signed, (note) => note !== '');
        expect(await detail()).toBe('nothing is wrong');
        const last = await signed();
        let stream = '';
        for await (const { event } of client.readAll())
          if (event?.streamId.startsWith('action-')) stream = event.streamId;
        await client.deleteStream(stream);
        expect(await relayMany(server)).toBeGreaterThan(0);
        await becomes(detail, (text) =>
          text.startsWith(`warning: log_not_signed: events of ${stream} were deleted in EventStoreDB`),
        );
        expect(await relayMany(server)).toBeGreaterThan(0);
        await sleep(2_500);
        expect(await signed()).toBe(last);
        const { text } = await server.send('GET', '/metrics');
        expect(text).toMatch(/^credence_log_signing_stopped 1$/m);
      } finally {
        await server.stop();
        await client.dispose();
        await Promise.all([cluster.stop(), store.remove()]);
      }
    },
    LONG,
  );
});
