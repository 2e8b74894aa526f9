import { cpSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { action } from '../cli/credence.js';
import { eventually } from '../contracts/harness.js';
import { type Answer, Server, expectProblem } from '../e2e/server.js';
import { Child } from '../embedded/processes/child.js';
import type { Asked, Read } from '../embedded/processes/damaged-store.js';
import { Progress, SEED, credenceWith, limit, long, randomFrom, repeated } from './faults.js';

/** Files that are not what was written to them: no wrong number is served, and every end is a sentence. */

/** In processes of their own: what is damaged might end one. */
const credence = (store: string, ...args: string[]) => credenceWith({}, store, ...args);

const MEMBERS = Array.from({ length: 50 }, (_, n) => `tris:member-${n}`);

let folder: string;
let whole: string;
let data: string;
/** What is asked, and what the undamaged store answers. */
const right = new Map<string, number>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-damage-'));
  [whole, data] = [join(folder, 'whole'), join(folder, 'data')];
  const lines = Array.from({ length: 300 }, (_, n) => `${JSON.stringify(action(n))}\n`);
  writeFileSync(join(folder, 'actions.ndjson'), lines.join(''));
  expect((await credence(whole, 'import', join(folder, 'actions.ndjson'))).code).toBe(0);
  const server = await Server.start({ data: whole });
  for (const member of MEMBERS) right.set(member, (await scoreOf(server, member)).json.total_tct);
  await server.stop();
});
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(() => void cpSync(whole, data, { recursive: true }));
afterEach(() => rm(data, { recursive: true, force: true }));

const scoreOf = (server: Server, member: string): Promise<Answer> => server.get(`/v1/disc/score/${member}`);

/** Changes a text to one of the same length in one stored event of the data folder's log, in every copy of its page. */
async function changeEvent(member: string, from: string, to: string): Promise<void> {
  const lines = (await credence(data, 'export', member)).stdout.trim().split('\n');
  const { id } = JSON.parse(lines[0]!) as { id: string };
  const path = join(data, 'log', 'data.mdb');
  const bytes = readFileSync(path);
  let changed = 0;
  const stored = Buffer.from(id.replaceAll('-', ''), 'hex');
  for (let at = bytes.indexOf(stored); at >= 0; at = bytes.indexOf(stored, at + 1)) {
    const place = bytes.indexOf(from, at);
    if (place < 0 || place > at + 1_000) continue;
    bytes.write(to, place);
    changed++;
  }
  expect(changed).toBeGreaterThan(0);
  writeFileSync(path, bytes);
  await rm(join(data, 'views'), { recursive: true });
}

/** Ended well, or with sentences: no stack, no signal. */
function expectSentences({ code, stderr }: { code: number | null; stderr: string }): void {
  expect([0, 1]).toContain(code);
  expect(stderr).not.toMatch(/^\s+at |Error:|undefined|Unexpected/m);
}

/** The numbers of a server are right, or it says that they may not be. @returns how many say so */
async function expectNoWrongNumber(server: Server, what: string): Promise<number> {
  let doubtful = 0;
  for (const [member, total_tct] of right) {
    const { status, json } = await scoreOf(server, member);
    const isRight = status === 200 && json.total_tct === total_tct;
    const saysSo = status >= 500 ? typeof json.code === 'string' : json.incomplete === true;
    if (!isRight && !saysSo) throw new Error(`${what}: ${member} ${status} ${JSON.stringify(json)}, not ${total_tct}`);
    if (!isRight || saysSo) doubtful++;
  }
  return doubtful;
}

test('one corrupted event: boot, projector, verify, rebuild and export continue, and all of them name it', async () => {
  await changeEvent('tris:member-7', 'compliance_', 'compliance-');
  const server = await Server.start({ data });
  expect(await expectNoWrongNumber(server, 'changed letter')).toBe(1);
  expect((await scoreOf(server, 'tris:member-7')).json.incomplete).toBe(true);
  const { json } = await server.get('/v1/dead-letters');
  expect(json.dead_letters).toHaveLength(1);
  expect(json.dead_letters[0]).toMatchObject({
    tris_id: 'tris:member-7',
    reason: 'its stored text is damaged: its checksum is that of another text',
  });
  await server.stop();
  const position = Number(json.dead_letters[0].position.split('.')[1]);
  const named = `the event at position ${position}, of tris:member-7, is damaged`;
  for (const command of ['verify', 'export']) {
    const ran = await credence(data, command);
    expectSentences(ran);
    expect([command, ran.code, `${ran.stdout}${ran.stderr}`]).toEqual([command, 1, expect.stringContaining(named)]);
  }
  expect((await credence(data, 'rebuild', 'all')).code).toBe(0);
  expect((await credence(data, 'status')).stdout).toMatch(/dead letters: 1 open[^]*of tris:member-7: its stored text/);
});

test('a damaged event about an unknown identity: every answer is incomplete until an operator acknowledges it', async () => {
  await changeEvent('tris:member-7', 'tris:member-7', 'tris:member-8');
  const server = await Server.start({ data });
  expect(await expectNoWrongNumber(server, 'changed identity')).toBe(MEMBERS.length);
  const { json } = await server.get('/v1/dead-letters');
  const [{ event_id, tris_id }] = json.dead_letters;
  expect(tris_id).toBeNull();
  const done = await server.post(`/v1/dead-letters/${event_id}/acknowledge`, { reason_code: 'disk_damage' });
  expect(done.status).toBeLessThan(300);
  expect((await server.getAfter(done, '/v1/disc/score/tris:member-9')).json.incomplete).toBeUndefined();
  await server.stop();
});

test.each([1 / 2, 7 / 8])('a log cut to %d of its length is refused with a sentence', async (part) => {
  const path = join(data, 'log', 'data.mdb');
  truncateSync(path, Math.floor(readFileSync(path).length * part));
  await expect(Server.start({ data })).rejects.toThrow(
    /^the server ended with 1: credence: \S+data\.mdb is cut.*: restore the log from a backup\.\n$/,
  );
  expectSentences(await credence(data, 'verify'));
});

/** Every file of the data folder that a service reads, but for keys. */
const FILES = [
  'log/data.mdb',
  'log/lock.mdb',
  'log.marker.json',
  'views/control/data.mdb',
  'views/g-g1/data.mdb',
  'views/g-g1/lock.mdb',
  'state/data.mdb',
];
const PLACES = repeated(3, 20);

test('a log folder that is moved away under a running server is noticed, and when it is back', async () => {
  const server = await Server.start({ data });
  const log = join(data, 'log');
  renameSync(log, `${log}.away`);
  await eventually(async () => (await server.send('GET', '/health/ready')).status === 503, 'a failed readiness');
  expectProblem(await server.relay({ tris_id: 'tris:late' }), 503, 'log_replaced');
  expectProblem(await scoreOf(server, 'tris:member-1'), 503, 'log_replaced');
  renameSync(`${log}.away`, log);
  await eventually(async () => (await server.send('GET', '/health/ready')).status === 200, 'readiness');
  expect(await expectNoWrongNumber(server, 'moved log')).toBe(0);
  expect(server.errors.join('').match(/log_replaced: the folder of the log/g)).toHaveLength(1);
  expect(await server.stop()).toBe(0);
});

describe('in a service of its own', () => {
  let child: Child | undefined;
  afterAll(() => child?.kill());

  let cases = 0;
  /** Copies the undamaged folder, damages the copy, and has it read. @throws where the process that reads it ends */
  async function readDamaged(what: string, damage: (copy: string) => void): Promise<Read> {
    if (!child || child.lines.length >= 50) {
      await child?.kill();
      child = new Child(new URL('../embedded/processes/damaged-store.ts', import.meta.url), []);
    }
    const copy = join(folder, `case-${cases++}`);
    cpSync(whole, copy, { recursive: true });
    damage(copy);
    const asked: Asked = { data: copy, members: MEMBERS };
    child.send(asked);
    try {
      return (await child.printed(child.lines.length + 1)).at(-1) as Read;
    } catch (error) {
      child = undefined;
      throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  }

  let undamaged: Read;
  beforeEach(async () => void (undamaged ??= await readDamaged('nothing', () => undefined)));

  /** Right numbers, or a statement that they may not be; a refusal in one sentence. @returns which of them */
  function judge(what: string, file: string, read: Read): 'refused' | 'doubtful' | 'right' {
    const found = `${what}: ${JSON.stringify({ ...read, identities: undefined })}`;
    if (read.faults.length > 0) throw new Error(found);
    if (read.refused !== undefined) {
      if (!/^[^\n]+\.$/.test(read.refused) || /undefined|Unexpected/.test(read.refused)) throw new Error(found);
      return 'refused';
    }
    let doubtful = false;
    for (const member of MEMBERS) {
      const is = read.identities[member]!;
      const wanted = undamaged.identities[member]!;
      if (is.incomplete || is.code !== undefined) doubtful = true;
      else if (is.total_tct !== wanted.total_tct || is.timeline !== wanted.timeline)
        throw new Error(`${member} ${JSON.stringify(is)} in ${found}`);
    }
    // Nobody need do anything about read models: they are folded again.
    if (doubtful && file.startsWith('views/')) throw new Error(found);
    // Rows of before the damage are those of an event that is a dead letter by now.
    if (read.verified !== 'identical' && file !== 'log/data.mdb') throw new Error(found);
    if (!/^(identical|damaged|different: )/.test(read.verified!)) throw new Error(found);
    if (read.log.length > 20) throw new Error(found);
    return doubtful ? 'doubtful' : 'right';
  }

  test.each(FILES)(
    `${PLACES} flipped bits in %s: no wrong number, no crash, and every end is a sentence`,
    async (file) => {
      const random = randomFrom(SEED);
      const progress = new Progress(`flipped bits in ${file}`, PLACES);
      const ends = { refused: 0, doubtful: 0, right: 0 };
      const size = statSync(join(whole, file)).size;
      for (let n = 0; n < PLACES; n++) {
        // Spread over the file.
        const at = Math.floor(((n + random()) * size) / PLACES);
        const bit = Math.floor(random() * 8);
        // Half of the time the read models are folded from what is there now.
        const isFolded = !file.startsWith('views/') && random() < 0.5;
        const what = `bit ${bit} of byte ${at} of ${file}, seed ${SEED}`;
        const read = await readDamaged(what, (copy) => {
          const bytes = readFileSync(join(copy, file));
          bytes[at]! ^= 1 << bit;
          writeFileSync(join(copy, file), bytes);
          if (isFolded) rmSync(join(copy, 'views'), { recursive: true });
        });
        ends[judge(what, file, read)]++;
        progress.step();
      }
      progress.end(JSON.stringify(ends));
    },
    limit(300_000),
  );

  test.each(FILES)(
    '%s cut at each power of two: no wrong number, no crash, and every end is a sentence',
    async (file) => {
      const { size } = statSync(join(whole, file));
      const lengths = Array.from({ length: 40 }, (_, n) => 2 ** n).filter((length) => length < size);
      const random = randomFrom(SEED);
      const some = long ? [0, ...lengths] : [lengths.at(-1)!, lengths[Math.floor(random() * lengths.length)]!];
      for (const length of some) {
        const what = `${file} cut to ${length} bytes`;
        const read = await readDamaged(what, (copy) => truncateSync(join(copy, file), length));
        judge(what, file, read);
      }
    },
    limit(300_000),
  );
});
