import { type ChildProcess, execFileSync } from 'node:child_process';
import { readdirSync, readlinkSync, statfsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Action } from '../../src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import { eventually } from '../contracts/harness.js';
import { Ledger } from '../e2e/ledger.js';
import { Server } from '../e2e/server.js';
import { type Ran, ended, spawnCommand } from '../servers/launch.js';
import { canMount, credence, credenceWith, long } from './faults.js';
import { fill } from './fill.js';

/** A build with temporary files by the command line. */

/** Of about two events each: enough for several partitions. */
const ACTIONS = long ? 110_000 : 25_000;
/** With little memory, a partition has a sixth of the events. */
const VARIABLES: Record<string, string> = long
  ? {}
  : { NODE_OPTIONS: '--max-old-space-size=224 --max-semi-space-size=16' };
/** MB of a disk: more than the log needs to grow, less than the files of a build. Of these, a build leaves 64 free. */
const ALMOST_FULL_MB = long ? 100 : 72;
const REBUILD = ['rebuild', 'all', '--swap'];
const MINUTES = 60_000;

/** A log with a generation that serves it. */
let filled: string;
let data: string;
beforeAll(async () => {
  filled = await mkdtemp(join(tmpdir(), 'credence-build-'));
  await (await Server.start({ data: filled })).stop();
  await fill(filled, ACTIONS, actionOf);
  const { code, stderr } = await credenceWith(VARIABLES, filled, ...REBUILD);
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
}, 30 * MINUTES);
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'credence-build-'));
  await cp(filled, data, { recursive: true });
});
afterEach(() => rm(data, { recursive: true, force: true }));
afterAll(() => rm(filled, { recursive: true, force: true }));

const now = Date.now();
function actionOf(n: number): Action {
  return {
    tris_id: `tris:${(n * 7_919) % 10_000}`,
    action_type: n % 20 === 19 ? 'trade_flags' : `kind_${n % 30}`,
    category: MODEL.categories[n % MODEL.categories.length]!,
    criticality: CRITICALITIES[n % CRITICALITIES.length]!,
    platform_id: `platform-${n % 50}`,
    occurred_at: now - ((n * 104_729) % 1_000) * 86_400_000,
    external_id: null,
    evidence_uri: null,
  };
}

/** In a process of its own, which takes half the time. */
async function isVerified(of: string): Promise<void> {
  const { code, stdout, stderr } = await credenceWith({}, of, 'verify');
  expect([code, code === 0 ? '' : stdout + stderr]).toEqual([0, '']);
}

class Rebuild {
  private readonly child: ChildProcess;
  readonly ended: Promise<Ran>;
  private isOver = false;

  constructor(of = data) {
    this.child = spawnCommand(REBUILD, { ...VARIABLES, CREDENCE_DATA: of });
    this.ended = ended(this.child).finally(() => (this.isOver = true));
  }

  /** Waits for a phase. @throws if it ends before */
  async until(phase: keyof typeof PHASES): Promise<void> {
    for (const files of PHASES[phase]) {
      while (this.files() !== files) {
        if (this.isOver) throw new Error(`the build has ended: ${JSON.stringify(await this.ended)}`);
        await sleep(2);
      }
    }
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** The number of its temporary files, which have no name. */
  private files(): number {
    const folder = `/proc/${this.child.pid}/fd`;
    try {
      const open = readdirSync(folder).map((name) => readlinkSync(join(folder, name)));
      return open.filter((path) => /\/build\/\S+ \(deleted\)$/.test(path)).length;
    } catch {
      return 0; // One was closed meanwhile.
    }
  }
}

/** The numbers of temporary files until then: of events, of events and rows, of rows. */
const PHASES = {
  'the log is read': [1],
  'partitions are folded': [1, 2],
  'rows are written': [1, 2, 1],
  'it is ready': [1, 2, 1, 0],
} as const;

test(
  'kill -9 in each phase leaves no file, and the build starts again, with the result of an unbroken one',
  async () => {
    for (const phase of Object.keys(PHASES) as (keyof typeof PHASES)[]) {
      const build = new Rebuild();
      await build.until(phase);
      await build.kill();
      expect(leftFiles()).toEqual([]);
      await eventually(isReleased, 'the lease of the killed command has expired');
    }
    const built = (await generations()).at(-1)!;
    // The last kill may have come before it was marked as ready, before it served, or after that.
    const rest = built.status === 'ready' ? ['swap', built.id] : REBUILD;
    if (built.serves.length === 0) expect(await credenceWith(VARIABLES, data, ...rest)).toMatchObject({ code: 0 });
    expect((await generations()).find(({ serves }) => serves.length > 0)!.id).toBe(built.id);
    await isVerified(data);
  },
  30 * MINUTES,
);

function leftFiles(of = data): string[] {
  return readdirSync(join(of, 'build'));
}

interface Generation {
  id: string;
  serves: string[];
  status: string;
  lease: unknown;
}
const generations = async (): Promise<Generation[]> =>
  JSON.parse((await credence(data, 'status', '--json')).stdout).generations;
const isReleased = async () => (await generations()).every(({ lease }) => lease === null || lease === undefined);

test(
  'while a server records, a build has every event in the end, and what was acknowledged is there once',
  async () => {
    const server = await Server.start({ data, env: VARIABLES });
    const ledger = new Ledger('growing');
    const head = await server.head();
    // The server builds, applies and records in one process: at its highest rate, it would fall behind for ever.
    let isOver = false;
    const writers = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        await ledger.persistOnce(server);
        await sleep(20);
      }
    });
    const began = performance.now();
    const { code, stderr } = await new Rebuild().ended;
    const rate = (((await server.head()) - head) * 1_000) / (performance.now() - began);
    isOver = true;
    await Promise.all(writers);
    process.stderr.write(`the log grew by ${rate.toFixed(0)} events a second\n`);
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    await ledger.expectHistories(server, await ledger.retryAll(server));
    expect(await server.stop()).toBe(0);
    await isVerified(data);
  },
  30 * MINUTES,
);

const MB = 2 ** 20;
(canMount() ? describe : describe.skip)('on a disk (a small file system of its own)', () => {
  let place: string;
  let folder: string;
  beforeEach(async () => {
    place = join(data, 'small');
    folder = join(place, 'data');
    await mkdir(place);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4g', 'tmpfs', place]);
    await cp(filled, folder, { recursive: true });
  });
  afterEach(() => execFileSync('umount', ['-l', place]));

  /** Makes the file system so large that this is free. */
  function leave(megabytes: number): void {
    const { blocks, bavail, bsize } = statfsSync(place);
    const size = (blocks - bavail) * bsize + megabytes * MB;
    execFileSync('mount', ['-o', `remount,size=${size}`, place]);
  }

  test.each(['the log is read', 'partitions are folded'] as const)(
    'that is almost full while %s, a build leaves no file, and succeeds when there is space again',
    async (phase) => {
      if (phase === 'the log is read') leave(ALMOST_FULL_MB);
      const build = new Rebuild(folder);
      if (phase !== 'the log is read') {
        await build.until(phase);
        leave(50);
      }
      const { code, stderr } = await build.ended;
      expect([code, stderr]).toEqual([1, expect.stringContaining('temporary files of the build were removed')]);
      expect(leftFiles(folder)).toEqual([]);
      const server = await Server.start({ data: folder });
      expect((await server.relay({ tris_id: 'tris:late' })).status).toBe(202);
      expect(await server.stop()).toBe(0);

      leave(2_000);
      const again = await credenceWith(VARIABLES, folder, ...REBUILD);
      expect([again.code, again.code === 0 ? '' : again.stderr]).toEqual([0, '']);
      await isVerified(folder);
    },
    30 * MINUTES,
  );
});
