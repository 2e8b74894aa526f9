import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Server } from '../e2e/server.js';
import { action, SLOW, Store } from './credence.js';

const ACTIONS = Array.from({ length: 400 }, (_, n) => action(n, { external_id: `n-${n}` }));

interface Status {
  events: number;
  generations: { id: string; status: string; serves: string[]; views: Record<string, number>; lag_events: number }[];
}

interface Line {
  id: string;
  stream: string;
  revision: number;
  metadata: { size: number };
}

describe('an operator', () => {
  let store: Store;
  beforeAll(async () => {
    store = await Store.create();
    await store.json('import', store.file('actions.ndjson', ACTIONS));
  });
  afterAll(() => store.remove());

  const status = () => store.json<Status>('status');
  const serving = async () => (await status()).generations.filter(({ serves }) => serves.length > 0);
  const ids = async () => (await status()).generations.map(({ id }) => id);

  test('rebuilds beside the serving generation, swaps, rolls back and drops, and the rows are identical each time', async () => {
    const [before] = await serving();
    const earlier = await ids();
    const built = await store.json<{ generation: string; events: number }>('rebuild', 'all');
    expect(built.events).toBe((await status()).events);
    expect((await serving()).map(({ id }) => id)).toEqual([before!.id]);

    expect((await store.run('swap', built.generation)).code).toBe(0);
    expect((await serving()).map(({ id }) => id)).toEqual([built.generation]);
    expect((await store.run('verify')).code).toBe(0);

    expect((await store.run('rollback')).code).toBe(0);
    expect((await serving()).map(({ id }) => id)).toEqual([before!.id]);
    expect((await store.run('verify')).code).toBe(0);

    expect((await store.run('drop', built.generation)).code).toBe(0);
    expect(await ids()).toEqual(earlier);
  });

  test('rebuilds one view and serves it beside the others of the older generation', async () => {
    const built = await store.json<{ generation: string }>('rebuild', 'timeline', '--swap');
    const now = await serving();
    expect(now.find(({ id }) => id === built.generation)!.serves).toEqual(['timeline']);
    expect(now).toHaveLength(2);
    expect((await store.run('verify')).code).toBe(0);
    expect((await store.run('rollback')).code).toBe(0);
  });

  test('gets one sentence for each operation that is not possible', async () => {
    const { id } = (await serving())[0]!;
    for (const [args, sentence] of [
      [['rebuild', 'nothing'], /There is no view nothing; the views are identities/],
      [['swap', 'g99'], /There is no generation g99, only g\d+/],
      [['swap', id], /already serves/],
      [['drop', id], /serves .*swap or roll back first/],
    ] as const) {
      const { code, stderr } = await store.run(...args);
      expect({ args, code, sentence: sentence.test(stderr), lines: stderr.trim().split('\n').length }).toEqual({
        args,
        code: 1,
        sentence: true,
        lines: 1,
      });
    }
  });

  test('is told before a rebuild, not after it, that nothing serves yet', async () => {
    const unserved = await Store.create();
    try {
      await unserved.json('import', unserved.file('actions.ndjson', ACTIONS.slice(0, 1)));
      rmSync(join(unserved.data, 'views'), { recursive: true });
      const { code, stderr } = await unserved.run('rebuild', 'all', '--swap');
      expect([code, stderr]).toEqual([1, 'credence: No generation serves yet: start the service once.\n']);
      expect((await unserved.json<Status>('status')).generations).toEqual([]);
      expect((await unserved.run('swap', 'g1')).stderr).toBe('credence: There is no generation g1, nor any other.\n');
      expect((await unserved.run('replay', 'tris:member-0')).stderr).toMatch(
        /^credence: The read models are being built: .*\. A worker builds them: start the service, if none is running\.\n$/,
      );
    } finally {
      await unserved.remove();
    }
  });

  test('exports, and an import into an empty store reproduces every id, time and order', async () => {
    const out = join(store.folder, 'all.ndjson');
    expect((await store.run('export', '--out', out)).code).toBe(0);
    expect(await store.run('export', '--out', out)).toMatchObject({
      code: 1,
      stderr: `credence: ${out} exists; --force replaces it.\n`,
    });
    expect(await store.run('export', '--out', join(store.folder, 'nowhere/export.ndjson'))).toMatchObject({
      code: 1,
      stderr: `credence: ${join(store.folder, 'nowhere')} does not exist.\n`,
    });
    expect(await store.run('export', '--out', store.folder, '--force')).toMatchObject({
      code: 1,
      stderr: `credence: ${store.folder} is a folder.\n`,
    });
    const other = await Store.create();
    try {
      const events = readFileSync(out, 'utf8').trim().split('\n').length - 1;
      expect(await other.json('import', out)).toMatchObject({ events, appended: events });
      expect(await other.json('import', out)).toMatchObject({ events, appended: 0 });
      const again = join(other.folder, 'again.ndjson');
      await other.run('export', '--out', again);
      expect(readFileSync(again, 'utf8')).toBe(readFileSync(out, 'utf8'));
      expect((await other.run('verify')).code).toBe(0);
    } finally {
      await other.remove();
    }
  });

  test('ends an export with its count and digest; a later one begins with the lines of an earlier one', async () => {
    const other = await Store.create();
    try {
      const lines = async (...about: string[]) => (await other.run('export', ...about)).stdout.split(/(?<=\n)/);
      await other.json('import', other.file('first.ndjson', ACTIONS.slice(0, 200)));
      const [all, one] = [await lines(), await lines('tris:member-1')];
      await other.json('import', other.file('second.ndjson', ACTIONS.slice(200)));
      for (const [earlier, later, about] of [
        [all, await lines(), undefined],
        [one, await lines('tris:member-1'), 'tris:member-1'],
      ] as const) {
        const events = earlier.slice(0, -1);
        const sha256 = createHash('sha256').update(events.join('')).digest('hex');
        const end = { end_of_export: { events: events.length, damaged: 0, sha256, about } };
        expect(JSON.parse(earlier.at(-1)!)).toEqual(end);
        expect(later.length).toBeGreaterThan(earlier.length);
        expect(later.slice(0, events.length)).toEqual(events);
      }
    } finally {
      await other.remove();
    }
  });

  test('the portable hash of a report is the same in the log that an export was imported into', async () => {
    const out = join(store.folder, 'moved.ndjson');
    expect((await store.run('export', '--out', out)).code).toBe(0);
    const other = await Store.create();
    try {
      await other.json('import', out);
      const reports = [];
      for (const { data } of [store, other]) {
        const server = await Server.start({ data });
        const report = await server.get('/v1/disc/report/tris:member-1?as_of=2020-03-01T00:00:00Z');
        reports.push(report.json);
        await server.stop();
      }
      const [here, there] = reports;
      expect(here.actions_by_metric).not.toEqual({});
      expect(there.portable_hash).toBe(here.portable_hash);
      expect(there.report_hash).not.toBe(here.report_hash);
    } finally {
      await other.remove();
    }
  });

  test('exports what is about one identity only', async () => {
    const { stdout, code } = await store.run('export', 'tris:member-1');
    expect(code).toBe(0);
    const events = stdout
      .trim()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { type: string; data: { tris_id: string } });
    expect(new Set(events.map(({ data }) => data.tris_id))).toEqual(new Set(['tris:member-1']));
    expect(events.filter(({ type }) => type === 'ActionRelayed')).toHaveLength(8);
  });

  test('cannot import an export into a store with other events', async () => {
    const out = join(store.folder, 'export.ndjson');
    await store.run('export', '--out', out, '--force');
    const other = await Store.create();
    try {
      await other.json('import', other.file('other.ndjson', [action(7, { external_id: 'x' })]));
      const { code, stderr } = await other.run('import', out);
      expect(code).toBe(1);
      expect(stderr).toMatch(/contains a different event/);
    } finally {
      await other.remove();
    }
  });

  test.each([
    [
      'an integer beyond 2^53',
      /"recorded_at"/,
      '"number":9007199254740993,"recorded_at"',
      /is an integer beyond 2\^53 - 1/,
    ],
    ['an event whose stream has none before it', /"revision":0/, '"revision":5', /is at no-stream, expected 4/],
  ])('does not import %s, and reports where the fault is', async (_what, part, replaced, why) => {
    const out = join(store.folder, 'export.ndjson');
    await store.run('export', '--out', out, '--force');
    const lines = readFileSync(out, 'utf8').trim().split('\n').slice(0, -1);
    expect(lines.length).toBeGreaterThan(500);
    const bad = lines.findIndex((line, n) => n > 100 && (JSON.parse(line) as Line).metadata.size === 1);
    lines[bad] = lines[bad]!.replace(part, replaced);
    const { id, stream } = JSON.parse(lines[bad]) as Line;
    const other = await Store.create();
    try {
      const { code, stderr } = await other.run('import', other.file('bad.ndjson', lines), '--incomplete');
      expect([code, stderr.trim().split('\n').length]).toEqual([1, 1]);
      expect(stderr).toMatch(why);
      expect(stderr).toContain(
        `refuses event ${id}, revision ${(JSON.parse(lines[bad]) as Line).revision} of ${stream}`,
      );
    } finally {
      await other.remove();
    }
  });

  test('an incomplete import of a log with an origin of checkpoints begins a new one, once', async () => {
    const [from, to] = [await Store.create(), await Store.create()];
    const origins = async () => {
      const { stdout } = await to.run('export');
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      return lines.filter(({ type }) => type === 'LogOriginBegun').map(({ data }) => data);
    };
    try {
      const action = {
        tris_id: 'tris:a',
        category: 'social',
        action_type: 'post',
        criticality: 'low',
        platform_id: 'p',
      };
      await from.run('import', from.file('actions.ndjson', [JSON.stringify(action)]));
      await from.run('signing-keys', 'new-origin', '--reason', 'first');
      const lines = (await from.run('export')).stdout.trim().split('\n');
      const file = to.file('cut.ndjson', lines.slice(0, -1));
      for (const _again of [1, 2]) expect(await to.run('import', file, '--incomplete')).toMatchObject({ code: 0 });
      const [first, second, ...more] = await origins();
      expect([second.replaces, second.reason_code, more]).toEqual([first.origin, 'incomplete_import', []]);
      expect(second.origin).not.toBe(first.origin);
    } finally {
      await from.remove();
      await to.remove();
    }
  });

  test.each([
    ['cut', (lines: string[]) => lines.slice(0, 100), /has no last line .*Nothing was imported; --incomplete/],
    [
      'cut in the middle',
      (lines: string[]) => [...lines.slice(0, 100), ...lines.slice(101)],
      /has changed from \d+ to \d+ events/,
    ],
    [
      'changed',
      (lines: string[]) => lines.map((line) => line.replace('tris:member-9', 'tris:member-8')),
      /was changed since it was exported: nothing was imported/,
    ],
    ['two in one', (lines: string[]) => [...lines, ...lines], /has lines after its trailer/],
    ['joined', (lines: string[]) => [lines[0]!, lines.join('').repeat(10)], /Line 2 is longer than any event/],
  ])('does not import an export that was %s, and nothing of it', async (_how, change, why) => {
    const out = join(store.folder, 'export.ndjson');
    await store.run('export', '--out', out, '--force');
    const lines = readFileSync(out, 'utf8').trim().split('\n');
    const other = await Store.create();
    try {
      const { code, stderr } = await other.run('import', other.file('bad.ndjson', change(lines)));
      expect([code, stderr.trim().split('\n').length]).toEqual([1, 1]);
      expect(stderr).toMatch(why);
      expect(existsSync(other.data)).toBe(false);
    } finally {
      await other.remove();
    }
  });

  test.each([
    ['within a line', (line: string) => line.slice(0, 200)],
    ['within an append', (line: string) => line],
  ])('imports an export that was cut off %s up to its last whole append, on request', async (_where, cut) => {
    const out = join(store.folder, 'export.ndjson');
    await store.run('export', '--out', out, '--force');
    const lines = readFileSync(out, 'utf8').trim().split('\n').slice(0, -1);
    const begins = lines.findIndex((line, n) => n > 100 && (JSON.parse(line) as Line).metadata.size > 1);
    const other = await Store.create();
    try {
      const file = other.file('cut.ndjson', []);
      writeFileSync(file, `${lines.slice(0, begins).join('\n')}\n${cut(lines[begins]!)}`);
      const { code, stdout, stderr } = await other.run('import', file, '--incomplete', '--json');
      expect([code, stderr]).toEqual([
        0,
        `The file is cut off: the append that begins at line ${begins + 1} is not whole, and is left out.\n`,
      ]);
      expect(JSON.parse(stdout)).toMatchObject({ events: begins, appended: begins });
      expect((await other.run('verify')).code).toBe(0);
    } finally {
      await other.remove();
    }
  });

  test('cannot import an event that has the id of a stored event and other content', async () => {
    const out = join(store.folder, 'export.ndjson');
    await store.run('export', '--out', out, '--force');
    const lines = readFileSync(out, 'utf8').trim().split('\n');
    const other = await Store.create();
    try {
      expect((await other.run('import', out)).code).toBe(0);
      const changed = lines.map((line) => line.replace('tris:member-9', 'tris:member-8'));
      const { code, stderr } = await other.run('import', other.file('bad.ndjson', changed), '--incomplete');
      expect(code).toBe(1);
      expect(stderr).toMatch(/The log contains a different event \d+: import into an empty store/);
    } finally {
      await other.remove();
    }
  });

  test('a backup into a path that leads through a file is refused with a sentence', async () => {
    const file = store.file('a-file', []);
    const { code, stderr } = await store.run('backup', join(file, 'copy'));
    expect(code).toBe(1);
    expect(stderr).toContain(`${file} is no folder that can be written to (EEXIST).`);
    expect(stderr).not.toContain('lstat');
  });

  test(
    'backs up beside a server under load; the copy, served, holds everything acknowledged before',
    async () => {
      const server = await Server.start({ data: store.data });
      const copy = join(store.folder, 'copy');
      try {
        let running = true;
        const load = (async () => {
          for (let n = 0; running; n++) await server.relay(action(n));
        })();
        const before = await status();
        const { code } = await store.run('backup', copy);
        running = false;
        await load;
        expect(code).toBe(0);
        expect((await store.run('backup', copy)).code).toBe(1);

        const restored = await Store.create();
        try {
          const ran = await restored.run('--data', copy, 'import', restored.file('none.ndjson', []), '--json');
          expect(ran.code).toBe(0);
          const after = await restored.run('--data', copy, 'status', '--json');
          expect((JSON.parse(after.stdout) as Status).events).toBeGreaterThanOrEqual(before.events);
          expect((await restored.run('--data', copy, 'verify')).code).toBe(0);
          expect(existsSync(join(copy, 'signing-keys.json'))).toBe(true);
          expect(existsSync(join(copy, 'voucher-keys.json'))).toBe(true);
        } finally {
          await restored.remove();
        }
      } finally {
        await server.stop();
      }
    },
    SLOW,
  );
});
