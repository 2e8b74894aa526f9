import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server } from './server.js';

/** What an operator reads when the service does not start: one sentence, without a stack trace. */

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'credence-start-'))));
afterEach(() => rm(folder, { recursive: true, force: true }));

async function refusal(env: Record<string, string> = {}, data = folder): Promise<string> {
  const error = await Server.start({ data, env }).then(
    () => new Error('it started'),
    (reason: Error) => reason,
  );
  return error.message.replace(/^the server /, '');
}
const sentence = (text: string) => `ended with 1: credence: ${text}\n`;

test('a port that is taken', async () => {
  const other = createServer();
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', done));
  const { port } = other.address() as AddressInfo;
  expect(await refusal({ CREDENCE_PORT: String(port) })).toBe(
    sentence(`Port ${port} of 127.0.0.1 is in use: stop what listens there, or set CREDENCE_PORT.`),
  );
  other.close();
});

test('an address that is not of this machine', async () => {
  expect(await refusal({ CREDENCE_HOST: '203.0.113.1' })).toBe(
    sentence('CREDENCE_HOST names 203.0.113.1, which is not an address of this machine.'),
  );
});

test('a data folder that is a file, is in one, or cannot be made', async () => {
  const file = join(folder, 'file');
  await writeFile(file, '');
  for (const data of [file, join(file, 'inside')]) {
    expect(await refusal({}, data)).toBe(sentence(`CREDENCE_DATA names ${data}, which is not a folder.`));
  }
  expect(await refusal({}, '/proc/credence')).toBe(
    sentence('CREDENCE_DATA names /proc/credence, which cannot be made or written (ENOENT).'),
  );
});

test('a log that is not the one that was there, or is less of it', async () => {
  await (await Server.start({ data: folder })).stop();
  const marker = join(folder, 'log.marker.json');
  const { log_id } = JSON.parse(await readFile(marker, 'utf8'));
  const advice = `restore a complete copy, or delete ${marker} to go on with what is there.`;
  const log = join(folder, 'log');
  await writeFile(marker, JSON.stringify({ log_id, position: 7 }));
  expect(await refusal()).toBe(sentence(`The log in ${log} ends at position 0 but has reached 7 before: ${advice}`));
  await writeFile(marker, JSON.stringify({ log_id: 'another', position: 0 }));
  expect(await refusal()).toBe(sentence(`${log} should hold the log another but holds the log ${log_id}: ${advice}`));
  await writeFile(marker, 'log');
  expect(await refusal()).toBe(sentence(`${marker} is damaged: delete it if the log beside it is the right one.`));
});

test.each([
  ['views/control', 'have the read models built again from the log'],
  ['views/g-g1', 'have the read models built again from the log'],
  ['log', 'restore the log from a backup'],
])('a file in %s that is no database of ours', async (name, advice) => {
  await mkdir(join(folder, name), { recursive: true });
  const file = join(folder, name, 'data.mdb');
  await writeFile(file, Buffer.alloc(65_536, 'x'));
  const message = await refusal();
  expect(message).toMatch(/^ended with 1: credence: [^\n]+\.\n$/);
  expect(message).toContain(`${file} is not a database that this build can read: `);
  expect(message).toContain(advice);
});
