import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { FolderOwned, Ownership } from '../../src/stores/owner.js';
import { ANOTHER_CONTAINER, namespaceTest } from '../servers/namespaces.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

/** The lock by which one process owns a data folder. */

const SCRIPT = new URL('./processes/owner.ts', import.meta.url);
const isRoot = process.getuid?.() === 0;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let data: string;
const children = new Set<Child>();
beforeEach(async () => {
  folder = await temporaryFolder();
  data = join(folder.path, 'data');
});
afterEach(async () => {
  for (const child of children) await child.kill();
  children.clear();
  await folder.remove();
});

interface Options {
  data?: string;
  env?: Record<string, string>;
  within?: readonly string[];
}

/** Another process that owns the folder. */
async function owner({ data: path = data, env, within }: Options = {}): Promise<Child> {
  const child = new Child(SCRIPT, [path, 'import file'], env, within);
  children.add(child);
  expect(await child.printed(1)).toEqual(['owned']);
  return child;
}

/** What another process says that tries to own the folder. */
async function refusal({ data: path = data, env, within }: Options = {}): Promise<{ name: string; message: string }> {
  const child = new Child(SCRIPT, [path, 'status'], env, within);
  children.add(child);
  const [answer] = await child.printed(1);
  return answer as { name: string; message: string };
}

const OWNED = { name: 'FolderOwned' };

test('a second process is refused with a sentence that names the one that owns the folder', async () => {
  const { pid } = await owner();
  const { message, name } = await refusal();
  expect(name).toBe('FolderOwned');
  expect(message).toMatch(
    new RegExp(
      `^${data} is in use by process ${pid} on ${hostname()} \\(credence import file \\S+, since \\S+Z\\): only one process at a time may open it\\.$`,
    ),
  );
  expect(() => Ownership.take(data)).toThrow(FolderOwned);
});

test('it is shared within a process, also by way of a symbolic link, until the last user ends', async () => {
  mkdirSync(data);
  const link = join(folder.path, 'link');
  symlinkSync(data, link);
  const [first, second] = [Ownership.take(data, 'serve'), Ownership.take(link)];
  await first.close();
  expect(await refusal({ data: link })).toMatchObject({
    ...OWNED,
    message: expect.stringContaining(`process ${process.pid} `),
  });
  await second.close();
  expect(await refusal()).toBe('owned');
});

test('it ends with the process, however that ends, and the file stays', async () => {
  await (await owner()).kill();
  expect(existsSync(join(data, 'owner.lock'))).toBe(true);
  expect(await refusal()).toBe('owned');
});

test('a process that is stopped still owns it', async () => {
  const child = await owner();
  child.signal('SIGSTOP');
  expect(await refusal()).toMatchObject(OWNED);
});

namespaceTest('it excludes processes of other PID, network and mount namespaces, until they end', async () => {
  const here = await owner();
  expect(await refusal({ within: ANOTHER_CONTAINER })).toMatchObject(OWNED);
  await here.kill();
  const there = await owner({ within: ANOTHER_CONTAINER });
  expect(await refusal()).toMatchObject(OWNED);
  expect(await refusal({ within: ANOTHER_CONTAINER })).toMatchObject(OWNED);
  await there.kill();
  // The process itself ends a moment after the one that made its namespaces.
  let last: unknown;
  for (let tries = 0; tries < 50 && last !== 'owned'; tries++) last = await refusal();
  expect(last).toBe('owned');
});

(existsSync('/dev/shm') ? test : test.skip)('it excludes on tmpfs', async () => {
  const shared = mkdtempSync('/dev/shm/credence-');
  try {
    await owner({ data: shared });
    expect(await refusal({ data: shared })).toMatchObject(OWNED);
  } finally {
    rmSync(shared, { recursive: true });
  }
});

namespaceTest('it excludes on overlayfs', async () => {
  mkdirSync(data);
  const mount = [
    `mount -t tmpfs tmpfs ${data}`,
    `cd ${data}`,
    'mkdir lower upper work merged',
    `mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged`,
    'exec "$@"',
  ].join(' && ');
  const merged = { data: join(data, 'merged') };
  const { pid } = await owner({ ...merged, within: ['unshare', '--mount', 'sh', '-c', mount, 'sh'] });
  const within = ['nsenter', '--mount', '--target', String(pid)];
  const type = execFileSync('nsenter', [...within.slice(1), 'stat', '-f', '-c', '%T', merged.data]).toString();
  expect(type).toBe('overlayfs\n');
  expect(await refusal({ ...merged, within })).toMatchObject(OWNED);
});

describe('what is no lock of ours is refused with one sentence', () => {
  const path = () => join(data, 'owner.lock');
  beforeEach(() => mkdirSync(data));

  test.each(['symlink', 'folder', 'pipe'])('a %s', async (kind) => {
    writeFileSync(join(folder.path, 'other'), 'kept');
    if (kind === 'symlink') symlinkSync(join(folder.path, 'other'), path());
    if (kind === 'folder') mkdirSync(path());
    if (kind === 'pipe') execFileSync('mkfifo', [path()]);
    const message = `${path()} is no regular file, and Credence did not create it: remove it.`;
    expect(await refusal()).toEqual({ name: 'StartError', message });
  });

  (isRoot ? test : test.skip)('a file of another user', async () => {
    writeFileSync(path(), '', { mode: 0o600 });
    chmodSync(folder.path, 0o755);
    chmodSync(data, 0o777);
    expect(await refusal({ within: ['setpriv', '--reuid', '65534', '--clear-groups'] })).toEqual({
      name: 'StartError',
      message: `${path()} cannot be opened and locked (EACCES): run this as the user to whom the data folder belongs.`,
    });
  });
});

namespaceTest('a full disk only takes the name of the owner from the sentence', async () => {
  mkdirSync(data);
  const fill = [
    `mount -t tmpfs -o size=64k tmpfs ${data}`,
    `touch ${data}/owner.lock`,
    `cat /dev/zero >${data}/zeros; exec "$@"`,
  ];
  const { pid } = await owner({ within: ['unshare', '--mount', 'sh', '-c', fill.join(' && '), 'sh'] });
  expect(await refusal({ within: ['nsenter', '--mount', '--target', String(pid)] })).toMatchObject({
    ...OWNED,
    message: `${data} is in use by another process: only one process at a time may open it.`,
  });
});

describe('file systems whose locks do not hold are refused by their type', () => {
  test.each([
    ['NFS', 0x6969],
    ['SMB', 0x517b],
    ['SMB', 0xff534d42],
    ['SMB', 0xfe534d42],
    ['9p', 0x01021997],
  ])('%s, %i', async (name, type) => {
    const shim = join(folder.path, 'statfs.cjs');
    writeFileSync(
      shim,
      `require('fs').statfsSync = () => ({ type: ${type} });\nrequire('module').syncBuiltinESMExports();\n`,
    );
    expect(await refusal({ env: { NODE_OPTIONS: `--require ${shim}` } })).toEqual({
      name: 'StartError',
      message: `${data} is on a file system of the type ${name}, on which no store may be: use a local disk.`,
    });
    expect(existsSync(join(data, 'owner.lock'))).toBe(false);
  });
});

describe('where the binary of the lock does not load', () => {
  let env: Record<string, string>;
  beforeEach(() => {
    const hook = join(folder.path, 'no-binary.cjs');
    writeFileSync(
      hook,
      `const Module = require('module');
       const load = Module._load;
       Module._load = (name, ...rest) => {
         if (name === 'fs-native-extensions') throw new Error('No such binary');
         return load(name, ...rest);
       };\n`,
    );
    env = { NODE_OPTIONS: `--require ${hook}` };
  });
  const hasProgram = spawnSync('flock', ['--version']).status === 0;

  (hasProgram ? test : test.skip)('the program flock locks, and its lock ends with the process', async () => {
    const child = await owner({ env });
    expect(await refusal({ env })).toMatchObject({
      ...OWNED,
      message: expect.stringContaining(`process ${child.pid} `),
    });
    await child.kill();
    expect(await refusal({ env })).toBe('owned');
  });

  test('without that program, one sentence says to install it', async () => {
    expect(await refusal({ env: { ...env, PATH: folder.path } })).toEqual({
      name: 'StartError',
      message:
        'This system cannot lock files (spawnSync flock ENOENT): install the program flock, of util-linux or busybox.',
    });
  });
});
