import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Action } from '../../src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import { type Answer, send } from '../http/client.js';
import { ended, spawnCommand, spawnServer } from '../servers/launch.js';
import { longTest, randomFrom } from './faults.js';
import { fill } from './fill.js';

/**
 * A server with little memory builds the read models of large identities and answers every read of them, however their
 * actions lie. MEMORY_ACTIONS is their number for each identity, MEMORY_LIMIT the limit of the heap in MB, MEMORY_CGROUP
 * the folder of a cgroup that the server is put into, which limits all its memory.
 */

/** Together more events than are needed for a build in bulk. */
const ACTIONS = Number(process.env['MEMORY_ACTIONS'] ?? 30_000);
const LIMIT_MB = Number(process.env['MEMORY_LIMIT'] ?? 256);
const CGROUP = process.env['MEMORY_CGROUP'];
const MOST_MB = 400;
const DAY = 86_400_000;

const now = Date.now();
const random = randomFrom(1);
const upTo = (most: number) => Math.floor(random() * most);
/** By identity: how many metrics its actions have, and how long ago the n-th of them occurred, ms. */
const SHAPES: Record<string, { metrics: number; ago: (n: number) => number }> = {
  'tris:wide': { metrics: 5_000, ago: () => upTo(1_000) * DAY + upTo(DAY) },
  'tris:one-day': { metrics: 17, ago: () => 40 * DAY + upTo(DAY) },
  'tris:ten-years': { metrics: 17, ago: () => upTo(3_650) * DAY },
  'tris:one-time': { metrics: 17, ago: () => 40 * DAY },
  'tris:a-year-late': { metrics: 17, ago: (n) => 365 * DAY + (ACTIONS - n) * 1_000 },
  'tris:newest-first': { metrics: 17, ago: (n) => Math.floor((n / ACTIONS) * 3_650 * DAY) },
  'tris:ten-thousand-metrics': { metrics: 10_000, ago: () => upTo(1_000) * DAY },
};

const IDENTITIES = Object.keys(SHAPES);

/** All actions of one identity, then those of the next. */
function actionOf(n: number): Action {
  const tris_id = IDENTITIES[Math.floor(n / ACTIONS)]!;
  const { metrics, ago } = SHAPES[tris_id]!;
  const metric = upTo(metrics);
  return {
    tris_id,
    action_type: metric % 20 === 19 ? `kind_${metric}_flags` : `kind_${metric}`,
    category: MODEL.categories[metric % MODEL.categories.length]!,
    criticality: CRITICALITIES[upTo(CRITICALITIES.length)]!,
    platform_id: `platform-${upTo(20)}`,
    occurred_at: now - ago(n % ACTIONS),
    external_id: null,
    evidence_uri: null,
  };
}

const CONTAINER_MB = 256;
/** Not short of memory for the heap, but for pages of the stores. */
const LARGER_MB = 512;

/** A cgroup with a limit of memory for a container of its own; undefined where this process cannot make one. */
function containerOf(megabytes: number): string | undefined {
  for (const [parent, file] of [
    ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
    ['/sys/fs/cgroup', 'memory.max'],
  ] as const) {
    const folder = join(parent, `credence-test-${process.pid}-${megabytes}`);
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    try {
      writeFileSync(join(folder, file), String(megabytes * 2 ** 20));
      return folder;
    } catch {
      rmdirSync(folder);
    }
  }
  process.stderr.write('a cgroup with a limit of memory cannot be made here: its test is skipped\n');
  return undefined;
}
const container = containerOf(CONTAINER_MB);
const larger = containerOf(LARGER_MB);

/** A program that is Node in the container from its start, since Node sets the limits of its heap then. */
function nodeIn(cgroup: string): string {
  const path = join(data, `node-in-${basename(cgroup)}`);
  const script = `#!/bin/sh\necho $$ > '${join(cgroup, 'cgroup.procs')}'\nexec '${process.execPath}' "$@"\n`;
  writeFileSync(path, script, { mode: 0o700 });
  return path;
}

/** The log that every test begins with. */
let filled: string;
beforeAll(async () => {
  filled = await mkdtemp(join(tmpdir(), 'credence-memory-'));
  await fill(filled, IDENTITIES.length * ACTIONS, actionOf);
}, 3_600_000);
let data: string;
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'credence-memory-'));
  await cp(filled, data, { recursive: true });
});
afterEach(() => rm(data, { recursive: true }));
afterAll(async () => {
  await rm(filled, { recursive: true });
  for (const folder of [container, larger]) if (folder) rmdirSync(folder);
});

/** Not test/e2e/server.ts, which gives a server less time to become ready than it takes to build all this. */
class LimitedServer {
  private readonly child: ChildProcess;
  private readonly address: Promise<string>;
  private key = '';

  /** @param node the program of Node */
  constructor(
    private readonly data: string,
    options: string,
    node?: string,
  ) {
    const NODE_OPTIONS = `--max-semi-space-size=32 ${options}`;
    this.child = spawnServer({ CREDENCE_DATA: data, CREDENCE_LOG_LEVEL: 'error', NODE_OPTIONS }, undefined, node);
    let output = '';
    this.address = new Promise((settle, fail) => {
      for (const stream of [this.child.stdout!, this.child.stderr!]) {
        stream.setEncoding('utf8').on('data', (text: string) => {
          output += text;
          const address = /^Credence serves (http:\/\/\S+)\s/m.exec(output);
          if (address) settle(address[1]!);
        });
      }
      this.child.once('exit', (code) => fail(new Error(`the server ended with ${code}: ${output.slice(-2_000)}`)));
    });
  }

  async get(path: string): Promise<Answer> {
    this.key ||= await readFile(join(this.data, 'dev-api-key'), 'utf8');
    const headers = { 'x-api-key': this.key };
    return send(Number(new URL(await this.address).port), 'GET', path, { headers });
  }

  async ready(): Promise<void> {
    await this.address;
    while ((await this.get('/health/ready')).status !== 200) await sleep(100);
  }

  /** The most anonymous memory that it has during some work, in MB; 0 where the system does not say. */
  async memoryDuring(work: () => Promise<unknown>): Promise<number> {
    const path = `/proc/${this.child.pid}/status`;
    let most = 0;
    const look = () => {
      const [, kilobytes = 0] = existsSync(path) ? (/RssAnon:\s+(\d+)/.exec(readFileSync(path, 'utf8')) ?? []) : [];
      most = Math.max(most, Number(kilobytes) / 1_024);
    };
    const timer = setInterval(look, 20);
    await work().finally(() => clearInterval(timer));
    look();
    return most;
  }

  /** For each mapping of a store's file, whether the system reads only the pages that are asked for. */
  mappings(): boolean[] {
    const maps = readFileSync(`/proc/${this.child.pid}/smaps`, 'utf8').split(/^(?=[\da-f]+-[\da-f]+ )/m);
    return maps.filter((map) => /data\.mdb$/m.test(map)).map((map) => /^VmFlags:.* rr /m.test(map));
  }

  async stop(): Promise<number | null> {
    this.child.kill('SIGTERM');
    const [code] = (await once(this.child, 'exit')) as [number | null];
    return code;
  }
}

const at = (ago: number) => new Date(now - ago).toISOString();

/** Every read of an identity, at every kind of viewpoint. */
function reads(tris: string, middle: string): string[] {
  const coordinates = [
    '',
    `as_of=${at(40.5 * DAY)}`,
    `as_of=${at(400 * DAY)}`,
    `known_at=${new Date().toISOString()}`,
    `as_of_position=${middle}`,
    'model=disc-2',
  ];
  const paths = [
    `/v1/disc/score/${tris}?`,
    `/v1/disc/score/${tris}/explain?`,
    `/v1/disc/score/${tris}/history?limit=1000&`,
    `/v1/disc/metrics/${tris}?`,
    `/v1/disc/report/${tris}?window=12&depth=analysis&`,
  ];
  return coordinates.flatMap((query) => paths.map((path) => path + query));
}

test('with little memory, the read models of large identities are built and every read of them is answered', async () => {
  const server = new LimitedServer(data, `--max-old-space-size=${LIMIT_MB}`, CGROUP && nodeIn(CGROUP));
  const figures: Record<string, number> = {};
  const began = performance.now();
  figures['building'] = await server.memoryDuring(() => server.ready());
  const seconds = ((performance.now() - began) / 1_000).toFixed(0);

  const { json: last } = await server.get('/v1/disc/score/tris:wide');
  const [log, position] = String(last.position).split('.');
  const middle = `${log}.${Math.floor(Number(position) / 2)}`;
  const ask = async (path: string) => {
    const { status, text } = await server.get(path);
    // Some identities are unknown at the position in the middle of the log.
    if (status !== 200 && status !== 404) throw new Error(`${path}: ${status} ${text.slice(0, 300)}`);
  };
  for (const tris of IDENTITIES) {
    figures[tris] = await server.memoryDuring(async () => {
      for (const path of reads(tris, middle)) await ask(path);
      await Promise.all(reads(tris, middle).map(ask));
    });
  }
  figures['the change feed'] = await server.memoryDuring(() => ask('/v1/disc/changes?limit=1000'));
  const told = Object.entries(figures).map(([name, megabytes]) => `${name} ${megabytes.toFixed(0)}`);
  process.stderr.write(
    `${ACTIONS} actions each, heap of ${LIMIT_MB} MB: built in ${seconds} s; MB: ${told.join(', ')}\n`,
  );

  expect(await server.stop()).toBe(0);
  expect(Object.entries(figures).filter(([, megabytes]) => megabytes >= MOST_MB)).toEqual([]);
}, 3_600_000);

(container ? longTest : test.skip)(
  `in a container of ${CONTAINER_MB} MB, the read models of a long log are built, and verified in several passes`,
  async () => {
    const node = nodeIn(container!);
    const server = new LimitedServer(data, '', node);
    await server.ready();

    for (const tris of IDENTITIES) {
      const { json: explanation } = await server.get(`/v1/disc/score/${tris}/explain`);
      expect(explanation.contributions.length).toBeGreaterThan(10);
    }
    expect(await server.stop()).toBe(0);

    const verifying = spawnCommand(['verify', '--json'], { CREDENCE_DATA: data }, { node });
    const { code, stdout, stderr } = await ended(verifying);
    // Null: killed for lack of memory.
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    const { identical, generations } = JSON.parse(stdout);
    expect(identical).toBe(true);
    expect(generations).toEqual([expect.objectContaining({ position: expect.any(Number) })]);
    expect(generations[0].passes).toBeGreaterThan(1);
  },
  3_600_000,
);

(larger ? test : test.skip)(`in a container of ${LARGER_MB} MB, the stores are not read ahead`, async () => {
  const empty = await mkdtemp(join(tmpdir(), 'credence-memory-'));
  const server = new LimitedServer(empty, '', nodeIn(larger!));
  await server.ready();
  const mappings = server.mappings();
  expect(await server.stop()).toBe(0);
  await rm(empty, { recursive: true });
  expect(mappings.length).toBeGreaterThan(2);
  expect(mappings).not.toContain(false);
});
