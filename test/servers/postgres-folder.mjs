/** What tests and benchmarks need to run a PostgreSQL: its programs, who runs them, and the folder of a new server. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { chown, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const CACHE = join(import.meta.dirname, '../../node_modules/.cache/postgres');

/** Debian does not put these on the PATH. */
const DEBIAN = '/usr/lib/postgresql';
const PROGRAMS = ['initdb', 'postgres', 'psql', 'pg_basebackup'];

/** Where its programs are, all of one version: by the PATH, or else the newest that Debian has installed; undefined: nowhere. */
export const POSTGRES = findPrograms();

function findPrograms() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...versions.map((version) => join(DEBIAN, version, 'bin')),
  ];
  return folders
    .map((folder) => resolve(folder, 'postgres'))
    .filter(isExecutable)
    .map((program) => dirname(realpathSync(program)))
    .find((folder) => PROGRAMS.every((name) => isExecutable(join(folder, name))));
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * How its programs are started: it refuses to run as root, and no variable of another server may reach them.
 * @type {{ uid?: number, gid?: number, cwd: string, env: NodeJS.ProcessEnv }}
 */
export const AS_SERVER = { ...unprivileged(), cwd: '/', env: { PATH: process.env['PATH'] } };

function unprivileged() {
  if (process.getuid?.() !== 0) return {};
  const users = readFileSync('/etc/passwd', 'utf8');
  const [, uid, gid] = /^postgres:[^:]*:(\d+):(\d+)/m.exec(users) ?? /^nobody:[^:]*:(\d+):(\d+)/m.exec(users) ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

/** A new folder that the server may write to. @param under where it is */
export async function serverFolder(under = tmpdir()) {
  const folder = await mkdtemp(join(under, 'credence-postgres-'));
  if (AS_SERVER.uid !== undefined) await chown(folder, AS_SERVER.uid, AS_SERVER.gid);
  return folder;
}

const INITDB = ['--no-sync', '--encoding=UTF8', '--locale=C.UTF-8', '--username=postgres'];
const ROLES = `\
CREATE ROLE credence LOGIN;
CREATE ROLE guarded LOGIN IN ROLE credence;
CREATE DATABASE credence OWNER credence;
`;
/** Who needs a password: `guarded` only. */
const ACCESS = `\
host all         guarded 127.0.0.1/32 scram-sha-256
host all         all     127.0.0.1/32 trust
host replication all     127.0.0.1/32 trust
`;

/**
 * Makes the data folder of a new server. The role `postgres` may do everything; `credence` owns the database of its name.
 * It is made once and then copied, which takes a fifth of the time.
 * @param {string} data does not exist yet
 */
export async function makeData(data) {
  const { stdout: version } = await run(join(POSTGRES, 'postgres'), ['--version'], AS_SERVER);
  const made = createHash('sha256').update(JSON.stringify([version, INITDB, ROLES, ACCESS, process.getuid?.()]));
  const template = join(CACHE, made.digest('hex').slice(0, 16));
  if (!existsSync(template)) await makeTemplate(template);
  await copyData(template, data);
}

/**
 * Copies the data folder of a server that does not run, with its owner.
 * @param {string} from
 * @param {string} to does not exist yet
 */
export async function copyData(from, to) {
  await run('cp', ['-a', from, to]);
}

/** @param {string} template */
async function makeTemplate(template) {
  const folder = await serverFolder();
  const data = join(folder, 'data');
  await run(join(POSTGRES, 'initdb'), [...INITDB, '-D', data], AS_SERVER);
  const single = run(join(POSTGRES, 'postgres'), ['--single', '-F', '-D', data, 'postgres'], AS_SERVER);
  single.child.stdin.end(ROLES);
  await single;
  await writeFile(join(data, 'pg_hba.conf'), ACCESS);
  // Others may make the same one at the same time: it appears whole, and the first one stays.
  const copy = `${template}-${basename(folder)}`;
  await mkdir(dirname(copy), { recursive: true });
  await copyData(data, copy);
  await rename(copy, template).catch(async (error) => {
    if (!existsSync(template)) throw error;
    await rm(copy, { recursive: true });
  });
  await rm(folder, { recursive: true });
}
