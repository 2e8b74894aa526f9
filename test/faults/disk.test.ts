import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  rmdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ledger, reached } from '../e2e/ledger.js';
import { ACTION, type Answer, Server, expectProblem, unique } from '../e2e/server.js';
import { eventually } from '../contracts/harness.js';
import {
  Progress,
  SEED,
  canMount,
  credence,
  limit,
  longCases,
  longTest,
  randomFrom,
  repeated,
  verified,
} from './faults.js';
import { EIO, ENOSPC, FaultyMachine, describeFaulty } from './faulty-machine.js';

/** A disk that is slow, fails, is full, loses power or may not be written to. */

let data: string;
let machine: FaultyMachine | undefined;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-disk-'))));
afterEach(async () => {
  for (const field of ['hold_syncs', 'hold_metas', 'fail_syncs', 'fail_metas', 'fail_writes'] as const)
    machine?.set(field, 0);
});
afterEach(() => rm(data, { recursive: true, force: true }));

const LOG = '/log/data.mdb';

/** A server on that machine, past everything that its boot writes. */
async function start(options: { part?: string; losesPower?: boolean } = {}): Promise<Server> {
  machine = new FaultyMachine(options.part ?? LOG, options);
  const server = await Server.start({ data, env: machine.env });
  const first = await server.relay({ tris_id: 'tris:first' });
  expect((await server.getAfter(first, '/api/disc-score/tris:first')).json.total_tct).toBe(100);
  return server;
}

/** By the version of the model without a limit per day, so that the TCT counts the actions. */
const total = async (server: Server, tris_id: string) => {
  const { status, json } = await server.get(`/v1/disc/score/${tris_id}?model=disc-1`);
  return status === 404 ? 0 : (json.total_tct as number);
};

/** Tells whether a promise is settled by now. */
function watch(promise: Promise<unknown>): () => boolean {
  let isSettled = false;
  void promise.finally(() => (isSettled = true)).catch(() => undefined);
  return () => isSettled;
}

/** Once it has answered several requests in succession, it has met all that were sent before. */
async function roundTrips(server: Server): Promise<void> {
  for (let n = 0; n < 5; n++) await server.send('GET', '/health/live');
}

describeFaulty('a slow disk', () => {
  test.each(longCases(['hold_syncs'] as const, ['hold_metas'] as const))(
    'no answer and no reader is ahead of it: %s',
    async (hold) => {
      const server = await start();
      const head = await server.head();
      const done = machine!.get(hold === 'hold_syncs' ? 'syncs' : 'metas');
      expect(done).toBeGreaterThan(0); // the calls that make a commit durable are indeed those that are held
      machine!.set(hold, 1);
      const tris_id = unique();
      const writes = Array.from({ length: 5 }, () => server.relay({ tris_id }));
      await machine!.holds();
      const isAnswered = watch(Promise.race(writes));
      expect(await server.head()).toBe(head);
      expect(await total(server, tris_id)).toBe(0);
      await roundTrips(server);
      expect(isAnswered()).toBe(false);
      const stopping = server.stop();
      const isStopped = watch(stopping);
      await sleep(200);
      expect([isAnswered(), isStopped()]).toEqual([false, false]);

      machine!.set(hold, 0);
      const answers = await Promise.all(writes);
      expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(202));
      expect(await stopping).toBe(0);
      const again = await Server.start({ data });
      const last = answers.reduce((a, b) => (positionOf(a) > positionOf(b) ? a : b));
      await reached(again, last);
      expect(await total(again, tris_id)).toBe(500);
      await again.stop();
      await verified(data);
    },
  );
});

describeFaulty('a disk that fails', () => {
  test.each(
    longCases<readonly [string, 'fail_syncs' | 'fail_metas' | 'fail_writes', number]>(
      [['to sync', 'fail_syncs', EIO]],
      [
        ['to write the last page of a commit', 'fail_metas', EIO],
        ['for want of space', 'fail_writes', ENOSPC],
      ],
    ),
  )('%s: 503, nothing of it is visible, and it goes on when the disk works again', async (_name, fault, errno) => {
    const server = await start();
    const head = await server.head();
    machine!.set(fault, errno);
    const tris_id = unique();
    const refused = await Promise.all(
      Array.from({ length: 12 }, (_, n) => server.relay({ tris_id, external_id: `${tris_id}-${n}` })),
    );
    for (const answer of refused) {
      expectProblem(answer, 503, 'store_unavailable');
      expect(answer.headers['retry-after']).toBe('1');
    }
    expect(await server.head()).toBe(head);
    expect(await total(server, tris_id)).toBe(0);
    expect(await total(server, 'tris:first')).toBe(100);
    const ready = await server.send('GET', '/health/ready');
    expect([ready.status, ready.json.checks.find(({ name }: any) => name === 'event_store').status]).toEqual([
      503,
      'failed',
    ]);
    expect(server.errors.join('')).toMatch(/"level":"error".*the append was not stored/);

    machine!.set(fault, 0);
    const action = { tris_id, external_id: `${tris_id}-0` };
    const written = await server.relay(action);
    expect(written.status).toBe(202);
    await reached(server, written);
    expect(await total(server, tris_id)).toBe(100);
    // Once it is over, it is over: no commit of before comes up again.
    await server.kill();
    const again = await Server.start({ data });
    expect((await again.relay(action)).json).toEqual(written.json);
    await reached(again, written);
    expect([await total(again, tris_id), await total(again, 'tris:first')]).toEqual([100, 100]);
    expect(await again.head()).toBe(head + 2);
    await again.stop();
    await verified(data);
  });

  longTest.each([
    ['of the read models', '/views/', 202],
    ['of the state', '/state/', 503],
  ])('to sync that %s: what needs it says so, the rest goes on', async (_name, part, withEvidence) => {
    const server = await start({ part });
    const tris_id = unique();
    machine!.set('fail_syncs', EIO);
    const plain = await server.relay({ tris_id });
    expect(plain.status).toBe(202);
    const evidence_uri = 'https://evidence.example/1';
    const answer = await server.relay({ tris_id, evidence_uri, external_id: 'evident' });
    expect(answer.status).toBe(withEvidence);
    expect(await total(server, 'tris:first')).toBe(100);
    if (part === '/views/') expect(await total(server, tris_id)).toBe(0);

    machine!.set('fail_syncs', 0);
    const last = await server.relay({ tris_id, evidence_uri, external_id: 'evident' });
    expect(last.status).toBe(202);
    await reached(server, last);
    expect(await total(server, tris_id)).toBe(200);
    expect(await server.stop()).toBe(0);
    await verified(data);
  });

  longTest.each([
    ['to sync', 'hold_syncs', 'fail_syncs'],
    ['to write the last page of a commit', 'hold_metas', 'fail_metas'],
  ] as const)(
    '%s, while another write waits for its turn: both are refused, and it goes on when the disk works again',
    async (_name, hold, fault) => {
      const server = await start({ part: '/state/' });
      const tris_id = unique();
      const relay = (n: number) =>
        server.relay({ tris_id, evidence_uri: `https://evidence.example/${n}`, external_id: `evident-${n}` });
      machine!.set(hold, 1);
      const first = relay(1);
      await machine!.holds();
      const others = [relay(2), relay(3)];
      await roundTrips(server);
      machine!.set(fault, EIO);
      machine!.set(hold, 0);
      for (const answer of await Promise.all([first, ...others])) expectProblem(answer, 503, 'store_unavailable');

      machine!.set(fault, 0);
      const last = await relay(1);
      expect(last.status).toBe(202);
      await reached(server, last);
      expect(await total(server, tris_id)).toBe(100);
      expect(await server.stop()).toBe(0);
      await verified(data);
    },
  );

  longTest(
    'while many write: what was acknowledged is there once, what was refused can be repeated',
    async () => {
      const server = await start();
      const random = randomFrom(SEED);
      const ledger = new Ledger('failing');
      const refused: number[] = [];
      const writers = Array.from({ length: 12 }, () =>
        ledger.persist(server, ({ status }) => void refused.push(status)),
      );
      for (let n = 0; n < repeated(2, 10); n++) {
        await ledger.acknowledges(10);
        // Not a full disk: there the library itself may end the process (docs/runbook.md), as kill -9 would.
        const fault = random() < 0.5 ? 'fail_syncs' : 'fail_metas';
        machine!.set(fault, EIO);
        const wanted = refused.length + 1 + Math.floor(random() * 50);
        await eventually(() => refused.length >= wanted, 'refusals');
        machine!.set(fault, 0);
      }
      ledger.stop();
      await Promise.all(writers);
      expect(new Set(refused)).toEqual(new Set([503]));
      await ledger.expectHistories(server, await ledger.retryAll(server));
      expect(await server.stop()).toBe(0);
      await verified(data);
    },
    limit(180_000),
  );
});

describeFaulty('a power cut', () => {
  const CUTS = repeated(1, 5);
  test(
    `${CUTS} times in the middle of writes: of what was not synced any part is lost, and nothing that was acknowledged`,
    async () => {
      const random = randomFrom(SEED);
      const progress = new Progress('power cuts', CUTS);
      let undone = 0;
      for (let n = 0; n < CUTS; n++) {
        const what = `cut ${n}, seed ${SEED}`;
        machine = new FaultyMachine(LOG, { losesPower: true });
        const server = await Server.start({ data, env: machine.env });
        const ledger = new Ledger(`cut${n}`);
        const writers = Array.from({ length: 12 }, () => ledger.write(server));
        await ledger.acknowledges(20 + Math.floor(random() * 200));
        await server.kill();
        await Promise.all(writers);
        const all = random() < 0.3;
        undone += machine.cutPower(() => all || random() < 0.5);
        machine.remove();
        machine = undefined;

        const again = await Server.start({ data }).catch((error: Error) => {
          throw new Error(`${what}: ${error.message}`);
        });
        await ledger.expectHistories(again, await ledger.retryAll(again));
        expect(await again.stop()).toBe(0);
        await verified(data);
        progress.step();
      }
      progress.end(`${undone} pages that were not synced were undone`);
    },
    limit(300_000),
  );
});

const isRoot = process.getuid?.() === 0;
const mounts = canMount();
(mounts ? describe : describe.skip)('a disk that is full (a small file system of its own)', () => {
  let place: string;
  beforeEach(() => {
    place = join(data, 'small');
    mkdirSync(place);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=38m', 'tmpfs', place]);
  });
  afterEach(() => execFileSync('umount', ['-l', place]));

  test('writes get 503 and reads continue; with space writes succeed again, and no acknowledged write is lost', async () => {
    const folder = join(place, 'data');
    const ballast = join(place, 'ballast');
    await writeFile(ballast, Buffer.alloc(4_000_000));
    const server = await Server.start({ data: folder });
    const ledger = new Ledger('full');
    // Each ends at the first refusal.
    await Promise.all(Array.from({ length: 64 }, () => ledger.write(server)));
    const refused = await server.relay({ tris_id: 'tris:late' });
    expectProblem(refused, 503, 'store_full');
    expect(await total(server, 'tris:late')).toBe(0);
    expect(server.errors.join('')).toMatch(/the append was not stored.*less than 32 MB are free on the disk of/);
    const register = await credence(folder, 'orgs', 'register', 'tris:org');
    expect(register).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/was not stored: less than 32 MB are free/),
    });
    // What frees space, and the small changes that keep a service going, may use the rest.
    expect((await credence(folder, 'rebuild', 'all')).code).toBe(1);
    expect(await credence(folder, 'drop', 'g2')).toMatchObject({ code: 0 });

    await rm(ballast);
    await ledger.expectHistories(server, await ledger.retryAll(server));
    await server.kill();
    const again = await Server.start({ data: folder });
    await ledger.expectHistories(again, await ledger.retryAll(again));
    expect(await total(again, 'tris:late')).toBe(0);
    expect(await again.stop()).toBe(0);
    await verified(folder);
  });
});

/** @param work gets the path of a disk in memory, of 60 MB */
async function onSmallDisk(work: (place: string) => Promise<void>): Promise<void> {
  const place = join(data, 'small');
  mkdirSync(place);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=60m', 'tmpfs', place]);
  try {
    await work(place);
  } finally {
    execFileSync('umount', ['-l', place]);
  }
}

(mounts ? test : test.skip)('on a small disk, copies of the data leave the space that the log needs to grow', () =>
  onSmallDisk(async (place) => {
    const folder = join(place, 'data');
    const server = await Server.start({ data: folder });
    await server.relay({ tris_id: 'tris:first' });
    for (const args of [
      ['backup', join(place, 'backup')],
      ['export', '--out', join(place, 'events.ndjson')],
    ]) {
      expect([args[0], await credence(folder, ...args)]).toEqual([
        args[0],
        expect.objectContaining({
          code: 1,
          stderr: expect.stringMatching(/The disk of \S+ is too full: \d+ MB are free/),
        }),
      ]);
    }
    const left = readdirSync(place, { recursive: true }) as string[];
    expect(left.filter((name) => !name.startsWith('data'))).toEqual([]);
    // What is written through a device or a pipe, or a link to another disk, takes no space here.
    const elsewhere = mkdtempSync(join(tmpdir(), 'credence-elsewhere-'));
    for (const target of ['/dev/null', join(elsewhere, 'events.ndjson')]) {
      writeFileSync(join(elsewhere, 'events.ndjson'), '');
      const link = join(place, 'link');
      symlinkSync(target, link);
      expect(await credence(folder, 'export', '--out', link, '--force')).toMatchObject({ code: 0 });
      rmSync(link);
    }
    rmSync(elsewhere, { recursive: true });
    expect((await server.relay({ tris_id: 'tris:later' })).status).toBe(202);
    await server.stop();
  }),
);

(mounts ? test : test.skip)(
  'on a disk in memory that is full to the last byte, a rebuild ends with a sentence, and the server lives',
  () =>
    onSmallDisk(async (place) => {
      const folder = join(place, 'data');
      const server = await Server.start({ data: folder });
      const first = await server.relay({ tris_id: 'tris:first' });
      await reached(server, first);
      const ballast = openSync(join(place, 'ballast'), 'w');
      expect(() => {
        for (;;) writeSync(ballast, Buffer.alloc(4_096));
      }).toThrow('ENOSPC');
      closeSync(ballast);
      const [code, sentence] = [1, /^credence: [^\n]*less than 1 MB is free on the disk of [^\n]+\n$/];
      const rebuild = () => credence(folder, 'rebuild', 'all');
      expect(await rebuild()).toMatchObject({ code, stderr: expect.stringMatching(sentence) });
      expect(await total(server, 'tris:first')).toBe(100);
      await rm(join(place, 'ballast'));
      expect((await server.relay({ tris_id: 'tris:later' })).status).toBe(202);
      expect((await rebuild()).code).toBe(0);
      expect(await server.stop()).toBe(0);
    }),
);

(mounts ? test : test.skip)('on a full disk, whatever makes a file ends with a sentence and leaves nothing', () =>
  onSmallDisk(async (place) => {
    const folder = join(place, 'data');
    const made = await credence(folder, 'import', '-');
    expect(made.code).toBe(0);
    const left = () => (readdirSync(place, { recursive: true }) as string[]).sort();
    const before = left();
    const ballast = openSync(join(place, 'ballast'), 'w');
    expect(() => {
      for (;;) writeSync(ballast, Buffer.alloc(4_096));
    }).toThrow('ENOSPC');
    for (const args of [
      ['signing-keys', 'create'],
      ['signing-keys', 'create', '--vouchers'],
      ['keys', 'create', '--id', 'operator', '--scopes', 'ops'],
      ['export', '--out', join(place, 'events.ndjson')],
      ['backup', join(place, 'backup')],
    ]) {
      expect([args, await credence(folder, ...args)]).toEqual([
        args,
        expect.objectContaining({ code: 1, stderr: expect.stringMatching(/^credence: .*\(ENOSPC\).*\.\n$/) }),
      ]);
      expect([args, left()]).toEqual([args, [...before, 'ballast'].sort()]);
    }
    // As much as the databases of a new folder need, but not their first event.
    ftruncateSync(ballast, statSync(join(place, 'ballast')).size - 8 * 2 ** 20);
    closeSync(ballast);
    const why = /A store is unavailable: the append was not stored: less than 32 MB are free on the disk of \S+log/;
    await expect(Server.start({ data: join(place, 'new') })).rejects.toThrow(why);
  }),
);

(mounts ? test : test.skip)('an import whose read models have no space says that everything is recorded', async () => {
  const views = join(data, 'views');
  mkdirSync(views);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', views]);
  try {
    const actions = join(data, 'actions.ndjson');
    await writeFile(actions, JSON.stringify(ACTION));
    const why = `less than 32 MB are free on the disk of ${views}`;
    const refused = {
      code: 1,
      stderr: expect.stringContaining(`Everything is recorded, but the read models are behind: ${why}`),
    };
    expect(await credence(data, 'import', actions)).toMatchObject(refused);
    const events = join(data, 'events.ndjson');
    expect((await credence(data, 'export', '--out', events)).code).toBe(0);
    expect(await credence(data, 'import', events)).toMatchObject(refused);
  } finally {
    execFileSync('umount', ['-l', views]);
  }
});

(mounts ? describe : describe.skip)('a disk that turns read-only', () => {
  const refusedAndRead = async (server: Server) => {
    expectProblem(await server.relay({ tris_id: 'tris:late' }), 503, 'store_unavailable');
    expect(await total(server, 'tris:first')).toBe(100);
    const why = /the append was not stored.*its file system is read-only \(EROFS\): make it writable/;
    expect(server.errors.join('')).toMatch(why);
  };

  test('a key is not made where its folder cannot be', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', data]);
    try {
      const folder = join(data, 'new');
      expect(await credence(folder, 'signing-keys', 'create')).toMatchObject({
        code: 1,
        stderr: `credence: ${folder} cannot be used (EROFS): make it writable; if the system made it read-only, check the disk.\n`,
      });
    } finally {
      execFileSync('umount', [data]);
    }
  });

  test('writes get 503, reads go on, and so do writes once it is writable again', async () => {
    const server = await Server.start({ data });
    await reached(server, await server.relay({ tris_id: 'tris:first' }));
    // What has a file open for writes keeps its file system writable: this is another mount in its place. It is made
    // read-only elsewhere, before the server can open a file on it.
    const aside = mkdtempSync(join(tmpdir(), 'credence-disk-'));
    execFileSync('mount', ['--bind', data, aside]);
    execFileSync('mount', ['-o', 'remount,bind,ro', aside]);
    execFileSync('mount', ['--bind', aside, data]);
    try {
      await refusedAndRead(server);
    } finally {
      execFileSync('umount', ['-l', data]);
      execFileSync('umount', [aside]);
      rmdirSync(aside);
    }
    await reached(server, await server.relay({ tris_id: 'tris:late' }));
    expect(await total(server, 'tris:late')).toBe(100);
    expect(await server.stop()).toBe(0);
    await verified(data);
  });

  describe('after an error', () => {
    let place: string;
    let folder: string;
    const mount = () => execFileSync('mount', ['-o', 'loop,errors=remount-ro', join(data, 'image'), place]);
    const unmount = () => execFileSync('umount', [place]);
    /** As the kernel does when the disk fails. */
    const failDisk = () => execFileSync('mount', ['-o', 'remount,abort', place]);
    beforeEach(() => {
      [place, folder] = [join(data, 'place'), join(data, 'place/data')];
      mkdirSync(place);
      const image = join(data, 'image');
      closeSync(openSync(image, 'w'));
      truncateSync(image, 200 * 2 ** 20);
      execFileSync('mkfs.ext4', ['-q', image]);
      mount();
    });
    afterEach(() => execFileSync('umount', ['-l', place]));

    test('writes get 503, and reads go on', async () => {
      const server = await Server.start({ data: folder });
      await reached(server, await server.relay({ tris_id: 'tris:first' }));
      failDisk();
      const refused = await Promise.all(Array.from({ length: 32 }, () => server.relay({ tris_id: 'tris:late' })));
      for (const answer of refused) expectProblem(answer, 503, 'store_unavailable');
      await refusedAndRead(server);
      await server.kill();
      unmount();
      mount();
      const again = await Server.start({ data: folder });
      expect([await total(again, 'tris:first'), await total(again, 'tris:late')]).toEqual([100, 0]);
      expect(await again.stop()).toBe(0);
      await verified(folder);
    });

    // The commit that is under way may end the process: the library writes past a buffer while it reports the failure.
    test('under writes, nothing that was acknowledged is lost', async () => {
      const server = await Server.start({ data: folder });
      await reached(server, await server.relay({ tris_id: 'tris:first' }));
      const ledger = new Ledger('read-only');
      // Each ends at the first refusal, or with the server.
      const writers = Array.from({ length: 32 }, () => ledger.write(server));
      await ledger.acknowledges(100);
      failDisk();
      await Promise.all(writers);
      await server.kill();
      unmount();
      mount();
      const again = await Server.start({ data: folder });
      await ledger.expectHistories(again, await ledger.retryAll(again));
      expect(await again.stop()).toBe(0);
      await verified(folder);
    });
  });
});

describe('a folder that may not be written', () => {
  test('stops the boot with one sentence, and is not changed', async () => {
    const server = await Server.start({ data });
    await server.relay({ tris_id: 'tris:first' });
    await server.stop();
    const sentence =
      /ended with 1: credence: \S+.* (cannot be created or written|cannot be read and written|cannot be used) \(E(ACCES|ROFS)\): (run this as|make it writable)[^\n]+\.\n$/;
    if (isRoot) {
      if (!mounts) return;
      // Permissions do not stop root; a file system does.
      execFileSync('mount', ['--bind', data, data]);
      execFileSync('mount', ['-o', 'remount,bind,ro', data]);
      try {
        await expect(Server.start({ data })).rejects.toThrow(sentence);
        expect((await credence(data, 'status')).code).toBe(1);
      } finally {
        execFileSync('umount', ['-l', data]);
      }
    } else {
      chmodSync(data, 0o500);
      await expect(Server.start({ data })).rejects.toThrow(sentence);
      chmodSync(data, 0o700);
    }
    const again = await Server.start({ data });
    expect(await total(again, 'tris:first')).toBe(100);
    await again.stop();
  });
});

const positionOf = ({ headers }: Answer) => Number(String(headers['credence-position']).split('.')[1]);
