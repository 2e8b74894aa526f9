import { jest } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { StoreUnavailable, type WrongExpectedRevision } from '../../src/stores/ports/event-store.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbEventStore, copyLog } from '../../src/stores/lmdb/lmdb-event-store.js';
import { INDEX_DATABASES, StreamIndex } from '../../src/stores/lmdb/stream-index.js';
import { describeEventStore } from '../contracts/event-store.contract.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { oneHandle } from './one-handle.js';
import { Child } from './processes/child.js';
import { eventually } from '../contracts/harness.js';
import { isOnPath } from '../servers/programs.js';
import { temporaryFolder } from './temporary-folder.js';

describeEventStore('LMDB', async () => {
  const folder = await temporaryFolder();
  return { open: oneHandle(() => LmdbEventStore.open(join(folder.path, 'log'))), destroy: folder.remove };
});

describe('the embedded log', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let path: string;
  const children: Child[] = [];
  beforeEach(async () => {
    folder = await temporaryFolder();
    path = join(folder.path, 'log');
  });
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    await folder.remove();
  });

  function appender(env: Record<string, string> = {}): Child {
    const child = new Child(new URL('./processes/appender.ts', import.meta.url), [path], env);
    children.push(child);
    return child;
  }

  async function filled(appends: number, indexBulk?: number): Promise<LmdbEventStore> {
    const store = await LmdbEventStore.open(path, { indexBulk });
    const streams = Array.from({ length: appends }, () => newStream());
    await Promise.all(streams.map((stream) => store.append(stream, 'no-stream', sampleEvents(stream))));
    return store;
  }

  test('positions are dense from 1', async () => {
    const store = await filled(5);
    const positions: number[] = [];
    for await (const slice of store.readAll(0, { sliceSize: 2 })) positions.push(...slice.map((e) => e.position));
    expect(positions).toEqual([1, 2, 3, 4, 5]);
    await store.close();
  });

  test('appends that arrive together share a commit', async () => {
    const commits: { events: number; milliseconds: number }[] = [];
    const store = await LmdbEventStore.open(path, { onCommit: (commit) => commits.push(commit) });
    const streams = Array.from({ length: 200 }, () => newStream());
    await Promise.all(streams.map((stream) => store.append(stream, 'no-stream', sampleEvents(stream, 2))));
    expect(commits.reduce((sum, { events }) => sum + events, 0)).toBe(400);
    expect(commits.length).toBeLessThan(20);
    await store.close();
  });

  test('a subscriber gets the very events that its process appends, a reader what is stored', async () => {
    const store = await filled(1);
    const abort = new AbortController();
    const subscription = store.subscribe(1, { signal: abort.signal });
    const next = subscription.next();
    const stream = newStream();
    const events = sampleEvents(stream, 2);
    await store.append(stream, 'no-stream', events);
    const given = (await next).value as RecordedEvent[];
    expect(given.map(({ data }, n) => data === events[n]!.data)).toEqual([true, true]);
    const read = (await store.readAll(1).next()).value as RecordedEvent[];
    expect(read).toEqual(given);
    expect(read[0]!.data).not.toBe(events[0]!.data);
    abort.abort();
    await subscription.next();
    await store.close();
  });

  test('a subscriber that falls behind its process gets every event', async () => {
    const store = await filled(1);
    const abort = new AbortController();
    const subscription = store.subscribe(0, { signal: abort.signal });
    const positions = ((await subscription.next()).value as RecordedEvent[]).map(({ position }) => position);
    // More than are kept for it.
    await Promise.all(
      Array.from({ length: 5 }, async () => {
        const stream = newStream();
        await store.append(stream, 'no-stream', sampleEvents(stream, 1_500));
      }),
    );
    while (positions.length < 7_501) {
      const { value } = (await subscription.next()) as { value: RecordedEvent[] };
      positions.push(...value.map(({ position }) => position));
    }
    expect(positions).toEqual(Array.from({ length: 7_501 }, (_, n) => n + 1));
    abort.abort();
    await subscription.next();
    await store.close();
  });

  test('a log that keeps many entries of its index in memory writes them when it is closed', async () => {
    const store = await LmdbEventStore.open(path, { indexBulk: 1_000_000 });
    const streams = Array.from({ length: 62 }, () => newStream());
    await Promise.all(streams.map((stream) => store.append(stream, 'no-stream', sampleEvents(stream, 1_000))));
    const stream = streams[30]!;
    await store.append(stream, 999, sampleEvents(stream, 2));
    await store.close();
    const env = await LmdbEnvironment.open(path, {
      databases: { events: { keyEncoding: 'uint32', encoding: 'string' }, ...INDEX_DATABASES },
    });
    const index = new StreamIndex(env);
    expect(index.known).toBe(62_002);
    expect([index.last(streams[61]!), index.last(stream), index.position(stream, 1_001)]).toEqual([999, 1_001, 62_002]);
    await env.close();
  });

  test('a retry with fewer or other events is a conflict', async () => {
    const store = await filled(0);
    const stream = newStream();
    await store.append(stream, 'no-stream', sampleEvents(stream, 3));
    const fewer = sampleEvents(stream, 2);
    await expect(store.append(stream, 'no-stream', fewer)).rejects.toMatchObject({ actual: 2 });
    await store.close();
  });

  test('streams are found again after the index was written in bulk', async () => {
    const store = await filled(0, 20_000);
    const stream = newStream();
    await store.append(stream, 'no-stream', sampleEvents(stream));
    // Enough for two bulks, some of it to the same streams.
    for (let round = 0; round < 3; round++) {
      await Promise.all(
        Array.from({ length: 3_000 }, (_, n) => {
          const many = `many-${n}`;
          return store.append(many, round === 0 ? 'no-stream' : round * 5 - 1, sampleEvents(many, 5, { round }));
        }),
      );
    }
    await store.append(stream, 0, sampleEvents(stream, 1, { second: true }));
    const check = async (opened: LmdbEventStore) => {
      expect((await opened.readStream(stream)).map(({ revision }) => revision)).toEqual([0, 1]);
      for (const n of [0, 17, 2_999]) {
        const many = await opened.readStream(`many-${n}`);
        expect(many.map(({ revision }) => revision)).toEqual(Array.from({ length: 15 }, (_, k) => k));
      }
      await expect(opened.append('many-5', 'no-stream', sampleEvents('many-5', 1, { x: 1 }))).rejects.toMatchObject({
        actual: 14,
      });
    };
    await check(store);
    await store.close();
    const reopened = await LmdbEventStore.open(path);
    await check(reopened);
    await reopened.close();
  });

  test('a stream is found again at the next start whatever characters its name has', async () => {
    const names = ['a,"revision":7', '","revision":7', '\\', 'é\u2028\n', '{"stream":"x","revision":1'];
    const store = await filled(0);
    for (const name of names) await store.append(name, 'no-stream', sampleEvents(name, 2));
    await store.close();
    const reopened = await LmdbEventStore.open(path);
    for (const name of names) {
      expect((await reopened.readStream(name)).map(({ stream, revision }) => [stream, revision])).toEqual([
        [name, 0],
        [name, 1],
      ]);
    }
    await reopened.close();
  });

  test('streams stay known while the index is written beside further appends', async () => {
    const store = await filled(0, 20_000);
    const streams = Array.from({ length: 24_000 }, (_, n) => `stream-${n}`);
    const append = async (stream: string, x: number) =>
      store.append(stream, 'no-stream', sampleEvents(stream, 1, { x })).then(
        () => 'appended',
        (error: unknown) => (error as WrongExpectedRevision).actual,
      );
    const outcomes = new Set();
    let next = 0;
    const caller = async () => {
      while (next < streams.length) {
        const stream = streams[next++]!;
        outcomes.add(await append(stream, 1)).add(await append(stream, 2));
      }
    };
    await Promise.all(Array.from({ length: 64 }, caller));
    expect([...outcomes]).toEqual(['appended', 0]);
    expect(new Set(await Promise.all(streams.map((stream) => append(stream, 3))))).toEqual(new Set([0]));
    expect(await store.head()).toBe(streams.length);
    await store.close();
  });

  describe('the marker beside the log', () => {
    test('a log that has become shorter is refused with one sentence', async () => {
      const first = await filled(3);
      await mkdir(join(folder.path, 'copy'));
      await copyLog(path, join(folder.path, 'copy'));
      await first.close();
      await (await filled(2)).close();

      await rm(path, { recursive: true });
      await cp(join(folder.path, 'copy'), path, { recursive: true });
      await expect(LmdbEventStore.open(path)).rejects.toThrow(
        /ends at position 3 but has reached 5 before.*marker\.json/,
      );
      await rm(`${path}.marker.json`);
      const accepted = await LmdbEventStore.open(path);
      expect(await accepted.head()).toBe(3);
      await accepted.close();
    });

    test('a missing or different log is refused', async () => {
      await (await filled(1)).close();
      const marker = JSON.parse(await readFile(`${path}.marker.json`, 'utf8'));
      await rm(path, { recursive: true });
      await expect(LmdbEventStore.open(path)).rejects.toThrow(
        `should contain the log ${marker.log_id} but contains no log`,
      );

      const elsewhere = await LmdbEventStore.open(join(folder.path, 'other'));
      await elsewhere.close();
      await rm(path, { recursive: true, force: true });
      await cp(join(folder.path, 'other'), path, { recursive: true });
      await expect(LmdbEventStore.open(path)).rejects.toThrow(`but contains the log ${elsewhere.logId}`);
    });

    test('is written within seconds of an append, without a close', async () => {
      const store = await filled(4);
      const marker = async () => JSON.parse(await readFile(`${path}.marker.json`, 'utf8').catch(() => '{}'));
      await eventually(async () => (await marker()).position === 4, 'the marker at position 4');
      expect(await marker()).toEqual({ log_id: store.logId, position: 4 });
      await store.close();
    });

    test('what a process left that was killed while it wrote the marker does no harm, and is removed', async () => {
      const beside = dirname(path);
      await writeFile(`${path}.marker.json.tmp`, `{"log_id":"${'x'.repeat(1_000)}`);
      const store = await filled(1);
      await store.close();
      expect((await readdir(beside)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
      const marker = JSON.parse(await readFile(`${path}.marker.json`, 'utf8'));
      expect(marker).toEqual({ log_id: store.logId, position: 1 });
    });
  });

  test('a log that is open cannot be opened again: its events would be overwritten', async () => {
    const store = await filled(1);
    await expect(LmdbEventStore.open(path)).rejects.toThrow(`the log in ${path} is open already`);
    await store.close();
    await (await LmdbEventStore.open(path)).close();
  });

  test('events of a failed commit that are in the log all the same are found before the next one', async () => {
    const store = await filled(3);
    const abort = new AbortController();
    const subscription = store.subscribe(3, { signal: abort.signal });
    const next = subscription.next();
    const { batch } = LmdbEnvironment.prototype;
    jest.spyOn(LmdbEnvironment.prototype, 'batch').mockImplementationOnce(async function (
      this: LmdbEnvironment,
      queue,
    ) {
      await batch.call(this, queue);
      throw new StoreUnavailable('the disk failed');
    });
    const events = sampleEvents('s', 2);
    await expect(store.append('s', 'no-stream', events)).rejects.toThrow(StoreUnavailable);
    expect(await store.head()).toBe(3);
    const [other, again] = await Promise.all([
      store.append('t', 'no-stream', sampleEvents('t')),
      store.append('s', 'no-stream', events),
    ]);
    expect([other.position, again.position, await store.head()]).toEqual([6, 5, 6]);
    expect((await store.readStream('s')).map(({ position }) => position)).toEqual([4, 5]);
    expect(((await next).value as RecordedEvent[]).slice(0, 2).map(({ position }) => position)).toEqual([4, 5]);
    abort.abort();
    await subscription.next();
    await store.close();
  });

  test('kill -9 of the appending process loses no acknowledged event', async () => {
    const child = appender();
    child.send({ stream: 'killed', size: 2, count: 100_000, inFlight: 50 });
    await child.printed(1_500);
    await child.kill();
    const acknowledged = child.lines.slice(1) as { stream: string; position: number }[];
    expect(acknowledged.length).toBeGreaterThan(1_000);
    const store = await LmdbEventStore.open(path);
    for (const { stream, position } of acknowledged) {
      expect((await store.readStream(stream)).map((event) => event.position)).toEqual([position - 1, position]);
    }
    // The log goes on, and holds whole appends only.
    await store.append('after', 'no-stream', sampleEvents('after'));
    let events = 0;
    for await (const slice of store.readAll(0)) {
      events += slice.length;
      expect(slice.at(-1)!.metadata.index).toBe(slice.at(-1)!.metadata.size - 1);
    }
    expect(events).toBe(await store.head());
    await store.close();
  });

  const compiler = process.env['CC'] ?? 'gcc';
  const compiles = process.platform === 'linux' && isOnPath(compiler);
  (compiles ? describe : describe.skip)('when the disk fails to sync', () => {
    test('nothing is acknowledged or visible, and the process survives and continues when the disk works again', async () => {
      const source = fileURLToPath(new URL('./processes/failing-disk.c', import.meta.url));
      const library = join(folder.path, 'failing-disk.so');
      execFileSync(compiler, ['-shared', '-fPIC', '-o', library, source, '-ldl']);
      const broken = join(folder.path, 'broken');
      const child = appender({ LD_PRELOAD: library, FAILING_DISK: broken });
      child.send({ stream: 'before' });
      await child.printed(2);
      const seen = async () => {
        child.send({ read: 'during-0' });
        return (await child.printed(child.lines.length + 1)).at(-1);
      };

      await writeFile(broken, '');
      child.send({ stream: 'during', size: 2, count: 20, inFlight: 10 });
      const failed = (await child.printed(22)).slice(2) as { error?: string }[];
      expect(failed.map(({ error }) => error)).toEqual(Array(20).fill('StoreUnavailable'));
      expect(await seen()).toEqual({ head: 1, events: 0 });

      await rm(broken);
      child.send({ stream: 'during', size: 2, count: 20, inFlight: 10 });
      const stored = (await child.printed(43)).slice(23) as { position?: number }[];
      expect(stored.map(({ position }) => position).sort((a, b) => a! - b!)).toEqual(
        Array.from({ length: 20 }, (_, n) => 3 + 2 * n),
      );
      expect(await seen()).toEqual({ head: 41, events: 2 });
    });
  });
});
