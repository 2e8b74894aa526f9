import { type ChildProcess, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { Child } from '../embedded/processes/child.js';
import { eventually } from '../contracts/harness.js';
import { Ledger } from '../e2e/ledger.js';
import { ACTION, Server } from '../e2e/server.js';
import { type Ran, ended, runCommand, spawnCommand, spawnServer } from '../servers/launch.js';
import { ANOTHER_CONTAINER, namespaceTest } from '../servers/namespaces.js';
import { VERSION } from '../../src/kernel/version.js';
import { Progress, SEED, limit, randomFrom, repeated, verified } from './faults.js';

/** Servers of one data folder: the second one is refused, and no end of the first one holds up the next. */

const SLOW = 180_000;
const OWNER = new URL('../embedded/processes/owner.ts', import.meta.url);

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let data: string;
const running: ChildProcess[] = [];
const others: Child[] = [];
beforeEach(async () => {
  folder = await temporaryFolder();
  data = join(folder.path, 'data');
});
afterEach(async () => {
  for (const other of others.splice(0)) await other.kill();
  for (const child of running.splice(0)) child.kill('SIGKILL');
  await folder.remove();
});

interface Started {
  child: ChildProcess;
  ran: Promise<Ran>;
  output: () => string;
  serves(): Promise<void>;
}

/** @param program starts the service instead of Node; reads its arguments */
function start(program?: string, env: Record<string, string> = {}): Started {
  const child = spawnServer({ CREDENCE_DATA: data, ...env }, undefined, program);
  running.push(child);
  let output = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ran = ended(child);
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const serves = async () => {
    await eventually(() => output.includes('Credence serves') || hasEnded(), 'a server');
    if (!output.includes('Credence serves')) throw new Error(`the server has ended: ${output}`);
  };
  return { child, ran, output: () => output, serves };
}

/** A program that starts Node after a line of shell, within another program. */
function program(name: string, within: readonly string[], first = ':'): string {
  const path = join(folder.path, name);
  writeFileSync(
    path,
    `#!/bin/sh\nexec ${within.join(' ')} sh -c '${first} && exec "$@"' sh ${process.execPath} "$@"\n`,
    {
      mode: 0o755,
    },
  );
  return path;
}

const command = (...args: string[]) => runCommand(args, { CREDENCE_DATA: data });

const refused = (pid: number | undefined) => ({
  code: 1,
  stdout: '',
  stderr: expect.stringMatching(
    new RegExp(
      `^credence: ${data} is in use by process ${pid} on ${hostname()} \\(credence serve ${VERSION}, since \\S+\\): only one process at a time may open it\\.\\n$`,
    ),
  ),
});

describe('a second server is refused by name', () => {
  test(
    'while one serves, and while that is stopped',
    async () => {
      const first = start();
      await first.serves();
      expect(await start().ran).toEqual(refused(first.child.pid));
      first.child.kill('SIGSTOP');
      expect(await start().ran).toEqual(refused(first.child.pid));
      first.child.kill('SIGCONT');
      expect(await command('verify')).toMatchObject({ code: 0 });
    },
    SLOW,
  );

  namespaceTest(
    'in PID, network and mount namespaces of its own, as in another container on the same volume',
    async () => {
      const first = start();
      await first.serves();
      const elsewhere = program('elsewhere', ANOTHER_CONTAINER);
      expect(await start(elsewhere).ran).toEqual(refused(first.child.pid));
      // A command there is carried out by the server here, and a backup goes to the volume of both.
      const ran = execFileSync(elsewhere, ['dist/src/cli.js', 'backup', join(folder.path, 'copy')], {
        env: { ...process.env, NODE_OPTIONS: '', CREDENCE_DATA: data },
      });
      expect(ran.toString()).toMatch(/^Copied /);
      expect(existsSync(join(folder.path, 'copy', 'log', 'data.mdb'))).toBe(true);
      first.child.kill('SIGTERM');
      expect((await first.ran).code).toBe(0);
      const next = start(elsewhere);
      await next.serves();
      expect(await start().ran).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use by process') });
      expect((await command('status')).code).toBe(0);
    },
    SLOW,
  );
});

namespaceTest(
  'a backup is refused where the server sees another disk than the caller',
  async () => {
    const target = join(folder.path, 'targets');
    mkdirSync(target);
    await start(program('apart', ['unshare', '--mount'], `mount -t tmpfs tmpfs ${target}`)).serves();
    expect(await command('backup', join(target, 'copy'))).toEqual({
      code: 1,
      stdout: '',
      stderr: `credence: The service that owns the folder does not see ${target} as you do: name a folder on a volume that both use, under the same path.\n`,
    });
    expect(existsSync(join(target, 'copy'))).toBe(false);
  },
  SLOW,
);

/** A command that owns the folder, and a server that waits for it. */
async function waiting(run?: string): Promise<{ other: Child; server: Started }> {
  const other = new Child(OWNER, [data, 'import file']);
  others.push(other);
  await other.printed(1);
  const server = start(run);
  await eventually(() => server.output().includes('waiting until'), 'the line of the server');
  return { other, server };
}

test(
  'a server waits while a command owns the folder, and takes over when it ends',
  async () => {
    const { other, server } = await waiting();
    expect(server.output()).toContain(
      `waiting until ${data} is free: process ${other.pid} on ${hostname()} (credence import file`,
    );
    await other.kill();
    await server.serves();
  },
  SLOW,
);

namespaceTest(
  'a server that waits as process 1 of a container ends with the first SIGTERM',
  async () => {
    const { server } = await waiting(program('container', ANOTHER_CONTAINER));
    process.kill(Number(execFileSync('pgrep', ['-P', String(server.child.pid)])), 'SIGTERM');
    expect((await server.ran).code).toBe(0);
  },
  60_000,
);

describe('a server starts at once after the one before was killed', () => {
  /** Each ends the process at a step of the start, by a function of the built service that runs then. */
  const STEPS: Record<string, string> = {
    'after the lock': `require('http').Server.prototype.listen = die;`,
    'after the socket': `const { listen } = require('http').Server.prototype;
      require('http').Server.prototype.listen = function (...args) {
        this.once('listening', die);
        return listen.apply(this, args);
      };`,
    // Of the marker of the log.
    'while opening': `require('fs').promises.rename = die;`,
  };

  test.each([...Object.keys(STEPS), 'while serving'])(
    '%s',
    async (step) => {
      const hook = join(folder.path, 'die.cjs');
      const die = `const die = () => process.kill(process.pid, 'SIGKILL');`;
      writeFileSync(hook, `${die}\n${STEPS[step] ?? ''}\nrequire('module').syncBuiltinESMExports();\n`);
      const first = start(undefined, { NODE_OPTIONS: `--require ${hook}` });
      if (!(step in STEPS)) {
        await first.serves();
        first.child.kill('SIGKILL');
      }
      expect((await first.ran).code).toBeNull();
      expect(first.child.signalCode).toBe('SIGKILL');
      expect(existsSync(join(data, 'owner.lock'))).toBe(true);
      expect(existsSync(join(data, 'owner.sock'))).toBe(step !== 'after the lock');
      const next = start();
      await next.serves();
      expect(next.output()).not.toContain('waiting');
      // It serves before it has applied the first event of its log; until then, `verify` says that it still builds.
      const [, url] = /Credence serves (\S+)/.exec(next.output())!;
      await eventually(async () => (await fetch(`${url}/health/ready`)).ok, 'a server that is ready');
      expect(await command('verify')).toMatchObject({ code: 0 });
    },
    SLOW,
  );
});

const KILLS = repeated(10, 40);
const KILLS_OF_A_SERVER = 10;

namespaceTest(
  `${KILLS} kills of what runs in another container lose nothing that was acknowledged, nor write anything twice`,
  async () => {
    const random = randomFrom(SEED);
    const elsewhere = program('elsewhere', ANOTHER_CONTAINER);
    const file = join(folder.path, 'actions.ndjson');
    const imported = Array.from({ length: 400 }, (_, n) => ({ ...ACTION, tris_id: 'tris:many', external_id: `i${n}` }));
    writeFileSync(file, imported.map((line) => JSON.stringify(line)).join('\n'));
    const victims = [
      () => start(elsewhere).child,
      () => spawnCommand(['import', file], { CREDENCE_DATA: data }, { node: elsewhere }),
      () => spawnCommand(['rebuild', 'all', '--swap'], { CREDENCE_DATA: data }, { node: elsewhere }),
      () => spawnCommand(['verify'], { CREDENCE_DATA: data }, { node: elsewhere }),
    ];
    const progress = new Progress('kills in another container', KILLS);
    let acknowledged = 0;
    for (let killed = 0, round = 0; killed < KILLS; round++) {
      const server = await Server.start({ data });
      const ledger = new Ledger(`r${round}`);
      const writers = Array.from({ length: 8 }, () => ledger.write(server));
      for (let n = 0; n < KILLS_OF_A_SERVER; n++, killed++) {
        const victim = victims[Math.floor(random() * victims.length)]!();
        const gone = ended(victim);
        await sleep(random() * 1_500);
        victim.kill('SIGKILL');
        await gone;
        progress.step();
      }
      await server.kill();
      await Promise.all(writers);
      acknowledged += ledger.acknowledged;
      const again = await Server.start({ data });
      await ledger.expectHistories(again, await ledger.retryAll(again));
      expect(await again.stop()).toBe(0);
      await verified(data);
    }
    expect(await command('import', file)).toMatchObject({ code: 0 });
    const many = await Server.start({ data });
    expect((await many.get('/v1/disc/score/tris:many?model=disc-1')).json.total_tct).toBe(100 * imported.length);
    expect(await many.stop()).toBe(0);
    progress.end(`${acknowledged} relays acknowledged`);
  },
  limit(600_000),
);
