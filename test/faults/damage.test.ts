import { cpSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { action } from '../cli/credence.js';
import { type Answer, Server } from '../e2e/server.js';
import { Progress, SEED, credenceWith, long, randomFrom } from './faults.js';

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
}, 120_000);
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
  for (let at = bytes.indexOf(id); at >= 0; at = bytes.indexOf(id, at + 1)) {
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

test('a flipped quote in one event: boot, projector, verify, rebuild and export go on, and all of them name it', async () => {
  await changeEvent('tris:member-7', '"platform_id"', '"platform_id ');
  const server = await Server.start({ data });
  expect(await expectNoWrongNumber(server, 'flipped quote')).toBe(1);
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
}, 120_000);

test('of an event of whom nobody knows: every answer says incomplete, until an operator goes on without it', async () => {
  await changeEvent('tris:member-7', '"tris:member-7"', '"tris:member-8"');
  const server = await Server.start({ data });
  expect(await expectNoWrongNumber(server, 'changed identity')).toBe(MEMBERS.length);
  const { json } = await server.get('/v1/dead-letters');
  const [{ event_id, tris_id }] = json.dead_letters;
  expect(tris_id).toBeNull();
  const done = await server.post(`/v1/dead-letters/${event_id}/acknowledge`, { reason_code: 'disk_damage' });
  expect(done.status).toBeLessThan(300);
  expect((await server.getAfter(done, '/v1/disc/score/tris:member-9')).json.incomplete).toBeUndefined();
  await server.stop();
}, 120_000);

test.each([1 / 2, 7 / 8])(
  'a log cut to %d of its length is refused with a sentence',
  async (part) => {
    const path = join(data, 'log', 'data.mdb');
    truncateSync(path, Math.floor(readFileSync(path).length * part));
    await expect(Server.start({ data })).rejects.toThrow(
      /^the server ended with 1: credence: \S+data\.mdb is cut.*: restore the log from a backup\.\n$/,
    );
    expectSentences(await credence(data, 'verify'));
  },
  60_000,
);

const FILES = ['log/data.mdb'];
const PLACES = long ? 45 : 2;

test.each(FILES)(
  `${PLACES} damaged places in %s: no wrong number, and every end is a sentence`,
  async (file) => {
    const random = randomFrom(SEED);
    const progress = new Progress(`damage to ${file}`, PLACES);
    let [refused, doubtful] = [0, 0];
    for (let n = 0; n < PLACES; n++) {
      await rm(data, { recursive: true, force: true });
      cpSync(whole, data, { recursive: true });
      const bytes = readFileSync(join(data, file));
      const at = Math.floor(random() * bytes.length);
      bytes[at]! ^= 1 << Math.floor(random() * 8);
      writeFileSync(join(data, file), bytes);
      // Half of the time the read models are folded from what is there now.
      if (random() < 0.5) await rm(join(data, 'views'), { recursive: true });
      const what = `${file}, byte ${at}, seed ${SEED}`;
      const server = await Server.start({ data }).catch((error: Error) => error);
      if (server instanceof Server) {
        doubtful += (await expectNoWrongNumber(server, what)) > 0 ? 1 : 0;
        expect([what, await server.stop()]).toEqual([what, 0]);
      } else {
        refused++;
        expect(`${what}: ${server.message}`).toMatch(
          /(the server ended with 1: credence: .*\.\n|does not become ready.*)$/,
        );
        expect(server.message).not.toMatch(/^\s+at /m);
      }
      if (existsSync(data)) expectSentences(await credence(data, 'verify'));
      progress.step();
    }
    progress.end(`${refused} were refused, ${doubtful} said that something is missing`);
  },
  long ? 1_800_000 : 180_000,
);
