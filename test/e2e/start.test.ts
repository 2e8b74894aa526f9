import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child } from '../embedded/processes/child.js';
import { credence } from '../faults/faults.js';
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

test('addresses of servers that the embedded profile does not use: it starts, and says so', async () => {
  const server = await Server.start({ data: folder, env: { EVENTSTORE_URL: 'esdb://127.0.0.1:1' } });
  expect(server.errors.join('')).toContain('EVENTSTORE_URL, CREDENCE_DATABASE_URL and REDIS_URL are not used');
  await server.stop();
});

test('a limit of open files that is too low', async () => {
  const limited = `ulimit -n 200 && exec "${process.execPath}" dist/src/main.js`;
  const env = { PATH: process.env['PATH'], CREDENCE_DATA: folder, CREDENCE_PORT: '0' };
  const { status, stderr } = spawnSync('sh', ['-c', limited], { env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    1,
    'credence: This process can have 200 files open, and Credence needs at least 256: raise the limit ("ulimit -n", ' +
      'LimitNOFILE), best to 65536.\n',
  ]);
});

test.each([['--exmaple'], ['--data', 'elsewhere'], ['8080']])('an option that there is not: %s', (...options) => {
  const env = { PATH: process.env['PATH'], CREDENCE_DATA: join(folder, 'data'), CREDENCE_PORT: '0' };
  const { status, stderr } = spawnSync(process.execPath, ['dist/src/main.js', ...options], { env, encoding: 'utf8' });
  const reason = `The server has no option ${options[0]}, only --example: set variables such as CREDENCE_DATA.`;
  expect([status, stderr, existsSync(env.CREDENCE_DATA)]).toEqual([2, `credence: ${reason}\n`, false]);
});

test.each(['dist/src/main.js', 'dist/src/cli.js'])('a limit of address space, with %s', (program) => {
  const limited = `ulimit -v 4000000 && exec "${process.execPath}" ${program} status`;
  const env = { PATH: process.env['PATH'], CREDENCE_DATA: folder, CREDENCE_PORT: '0' };
  const { status, stderr } = spawnSync('sh', ['-c', limited], { env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    1,
    'credence: This process can have 3.8 GB of address space, and Credence needs at least 32, most of which takes no ' +
      'memory: remove the limit ("ulimit -v unlimited", LimitAS=infinity), and limit the memory of its container ' +
      'instead.\n',
  ]);
});

test('too many readers of the data folder', async () => {
  await (await Server.start({ data: folder })).stop();
  const child = new Child(new URL('../embedded/processes/many-readers.ts', import.meta.url), [join(folder, 'log')]);
  await child.printed(1);
  expect(await refusal()).toBe(
    sentence(
      `A store is unavailable: ${join(folder, 'log')}: too many processes and threads read it at once ` +
        '(MDB_READERS_FULL): stop those that are not needed.',
    ),
  );
  await child.kill();
  await (await Server.start({ data: folder })).stop();
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
    sentence('CREDENCE_DATA names /proc/credence, which cannot be created or written (ENOENT).'),
  );
});

test('files of keys that are not JSON, whose contents are not shown', async () => {
  const file = join(folder, 'keys.json');
  await writeFile(file, '{"keys": [{"crv": "Ed25519", "d": "SECRET"; "kty": "OKP"}]}');
  for (const variable of ['CREDENCE_API_KEYS', 'CREDENCE_SIGNING_KEYS', 'CREDENCE_VOUCHER_KEYS']) {
    expect(await refusal({ [variable]: file })).toMatch(
      new RegExp(`^ended with 2: credence: ${file} cannot be read as JSON: unexpected text[^\\n"]*\\.\n$`),
    );
  }
});

test('a different log, or a shorter one', async () => {
  await (await Server.start({ data: folder })).stop();
  const marker = join(folder, 'log.marker.json');
  const { log_id } = JSON.parse(await readFile(marker, 'utf8'));
  const advice = `restore a complete copy, or delete ${marker} to continue with what is there.`;
  const log = join(folder, 'log');
  await writeFile(marker, JSON.stringify({ log_id, position: 7 }));
  expect(await refusal()).toBe(sentence(`The log in ${log} ends at position 1 but has reached 7 before: ${advice}`));
  await writeFile(marker, JSON.stringify({ log_id: 'another', position: 0 }));
  expect(await refusal()).toBe(
    sentence(`${log} should contain the log another but contains the log ${log_id}: ${advice}`),
  );
  await writeFile(marker, 'log');
  expect(await refusal()).toBe(sentence(`${marker} is damaged: delete it if the log beside it is the right one.`));
  await rm(marker);
  await mkdir(marker);
  expect(await refusal()).toBe(sentence(`${marker} cannot be read (EISDIR): move that folder away.`));
});

test('a development key that is a folder, is empty, is not text or is only a part', async () => {
  const file = join(folder, 'dev-api-key');
  for (const make of [
    () => mkdir(file),
    () => writeFile(file, '\n'),
    () => writeFile(file, Buffer.from([0x80, 0xff])),
    () => writeFile(file, 'c'),
    () => writeFile(file, `credence_${'k'.repeat(42)}`),
  ]) {
    await make();
    expect(await refusal()).toBe(
      `ended with 2: credence: ${file} contains no key; delete it, and the next start creates a new development key.\n`,
    );
    await rm(file, { recursive: true });
  }
});

test('read models of another log, until the operator confirms that this log has replaced it', async () => {
  const [one, other] = [join(folder, 'one'), join(folder, 'other')];
  const logOf = async (data: string) => JSON.parse(await readFile(join(data, 'log.marker.json'), 'utf8')).log_id;
  for (const data of [one, other]) await (await Server.start({ data })).stop();
  await rm(join(other, 'views'), { recursive: true });
  await cp(join(one, 'views'), join(other, 'views'), { recursive: true });
  const why =
    `The read models that serve (g1) are of the log ${await logOf(one)}, but the log here is ${await logOf(other)}: ` +
    'set EVENTSTORE_URL and CREDENCE_DATABASE_URL (or CREDENCE_DATA) to what belongs together, or, if this log has ' +
    'replaced that one for good, run "credence rebuild all --swap --new-log".';
  expect(await refusal({}, other)).toBe(sentence(why));
  expect(await credence(other, 'rebuild', 'all', '--swap')).toMatchObject({ code: 1, stderr: `credence: ${why}\n` });
  expect((await credence(other, 'status')).stdout).toMatch(/^g1 +of another log/m);

  const { stdout } = await credence(other, 'rebuild', 'all', '--swap', '--new-log');
  expect(stdout).toMatch(/^g2 is ready: .* g2 serves now\.\n$/);
  const server = await Server.start({ data: other });
  expect((await server.getAfter(await server.relay(), '/api/disc-score/tris:somebody')).json.total_tct).toBe(100);
  expect((await credence(other, 'drop', 'g1')).code).toBe(0);
  expect(await server.stop()).toBe(0);
});

test('a file of locks that cannot be opened, with which the library would end the process', async () => {
  const file = join(folder, 'log', 'lock.mdb');
  await mkdir(file, { recursive: true });
  expect(await refusal()).toBe(sentence(`${file} cannot be opened (EISDIR): move that folder away.`));
});

test('a file in the place of the folder of the log', async () => {
  const log = join(folder, 'log');
  await writeFile(log, '');
  expect(await refusal()).toBe(
    sentence(`A store is unavailable: ${log}: a file is in the place of its folder (EEXIST): move that file away.`),
  );
});

test('a log that is not a database', async () => {
  await mkdir(join(folder, 'log'), { recursive: true });
  const file = join(folder, 'log', 'data.mdb');
  await writeFile(file, Buffer.alloc(65_536, 'x'));
  const message = await refusal();
  expect(message).toMatch(/^ended with 1: credence: [^\n]+\.\n$/);
  expect(message).toContain(`${file} is not a database that this build can read: restore the log from a backup.`);
});

test('state that is not a database: which folder may be deleted, and what that loses', async () => {
  await (await Server.start({ data: folder })).stop();
  const state = join(folder, 'state');
  await writeFile(join(state, 'data.mdb'), Buffer.alloc(65_536, 'x'));
  const advice =
    `restore it from a backup, or delete the folder ${state}, by which no fact is lost, but its jobs, all sign-ins and ` +
    'the texts behind hashes (evidence_uri) are.';
  expect(await refusal()).toBe(
    sentence(`${join(state, 'data.mdb')} is not a database that this build can read: ${advice}`),
  );
  await rm(state, { recursive: true });
  await (await Server.start({ data: folder })).stop();
});

test.each(['views/control', 'views/g-g1'])(
  'read models in %s that are not a database are built again',
  async (name) => {
    await mkdir(join(folder, name), { recursive: true });
    await writeFile(join(folder, name, 'data.mdb'), Buffer.alloc(65_536, 'x'));
    const server = await Server.start({ data: folder });
    expect((await server.getAfter(await server.relay(), '/api/disc-score/tris:somebody')).json.total_tct).toBe(100);
    expect(await server.stop()).toBe(0);
  },
);

test('the service starts where all paths are long', async () => {
  // Longer than the path of a socket may be, as is that of the folder of temporary files.
  const data = join(folder, 'x'.repeat(100));
  await mkdir(data);
  const env = { TMPDIR: data };
  const server = await Server.start({ data, env });
  expect((await server.relay()).status).toBe(202);
  expect(await server.stop()).toBe(0);
});
