import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { request } from 'node:http';
import { type Socket, connect } from 'node:net';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stringify } from 'yaml';
import type { Host } from '../../src/cli/cli.js';
import { listenForCommands } from '../../src/cli/owner-server.js';
import { VERSION } from '../../src/kernel/version.js';
import { eventually } from '../contracts/harness.js';
import { Child } from '../embedded/processes/child.js';
import { Server } from '../e2e/server.js';
import { longCases } from '../faults/faults.js';
import { configuration } from '../policies/configuration.js';
import { type Ran, ended, runCommand, spawnCommand, spawnServer } from '../servers/launch.js';
import { SLOW, Store, actions } from './credence.js';

/** Commands that the server carries out that owns the folder, and commands that own it themselves. */

interface Status {
  events: number;
  generations: { id: string; status: string; serves: string[]; lease: string | null }[];
}

const REPAID = { category: 'finance', action_type: 'loan_repayment' };
const members = (from: number, to: number) =>
  actions(to)
    .slice(from)
    .map((one) => ({ ...one, ...REPAID, occurred_at: '2020-01-01T00:00:00Z' }));
const vp = (policy_id: string) => ({
  policy_id,
  tris_org: 'tris:lender',
  inputs: configuration([{ metric: 'finance_loan_repayment', criticality: 'Critical', weight: 0.14 }]),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});

describe('each command ends and prints beside a server as it does without one', () => {
  let alone: Store;
  let served: Store;
  let server: Server;
  beforeAll(async () => {
    alone = await Store.create();
    await alone.json('import', alone.file('first.ndjson', members(0, 200)));
    served = await Store.create();
    cpSync(alone.data, served.data, { recursive: true });
    server = await Server.start({ data: served.data });
    for (const store of [alone, served]) {
      store.file('more.ndjson', members(200, 300));
      store.file('wrong.ndjson', [...members(300, 301), '{']);
      store.file('vp.json', [vp('VP_A_V1')]);
      store.file('ap.json', [{ policy_id: 'AP_A_V1', rules: { disc_min: 0.5 } }]);
      store.file('ap-wrong.json', [{ policy_id: 'AP_B_V1', rules: { any: [{ disc_min: 101 }] } }]);
      mkdirSync(join(store.folder, 'policies'));
      store.file('policies/a.yaml', [stringify({ kind: 'ap', policy_id: 'AP_C_V1', rules: { tct_min: 300 } })]);
      store.file('policies/b.yaml', [stringify({ kind: 'vp', ...vp('VP_C_V1'), promote: 'platform' })]);
    }
  }, SLOW);
  afterAll(async () => {
    await server.stop();
    await Promise.all([alone, served].map((store) => store?.remove()));
  });

  /** What is of one run is taken out of its output. */
  const normal = (folder: string, { code, stdout, stderr }: Ran): Ran => {
    const tidy = (output: string) =>
      output
        .replaceAll(folder, '<folder>')
        .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
        .replaceAll(/rpl_[0-9a-f]{32}/g, '<id>')
        // The root of the tree of the log: every event has a salt.
        .replaceAll(/[A-Za-z0-9+/]{43}=/g, '<root>')
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
        .replaceAll(
          /"(seconds|lag_seconds|sha256|salt|recorded_at|lease)":(null|"[^"]*"|[\d.e-]+|{[^}]*})/g,
          '"$1":<some>',
        )
        .replaceAll(/[\d.]+ s\b/g, '<time>')
        .replaceAll(/[\d,.]+ ?(lines|events|rows)?\/s/g, '<rate>');
    return { code, stdout: tidy(stdout), stderr: tidy(stderr) };
  };

  const STEPS: [number, ...string[]][] = [
    [0, 'status', '--json'],
    [0, 'import', '<folder>/more.ndjson'],
    [0, 'import', '<folder>/more.ndjson', '--json'],
    [0, 'import', '-'],
    [1, 'import', '<folder>/wrong.ndjson'],
    [2, 'import', '<folder>/none.ndjson'],
    [0, 'export'],
    [0, 'export', '--out', '<folder>/all.ndjson'],
    [1, 'export', '--out', '<folder>/all.ndjson'],
    [0, 'export', '--out', '<folder>/all.ndjson', '--force'],
    [1, 'export', '--out', '<folder>/none/all.ndjson'],
    [0, 'export', '--out', '/dev/null'],
    [0, 'export', 'tris:member-1'],
    [2, 'export', 'nobody'],
    [0, 'export', '--csv', 'identities'],
    [0, 'export', '--csv', 'identities', '--out', '<folder>/identities.csv'],
    [2, 'export', '--csv', 'scores'],
    [0, 'import', '<folder>/all.ndjson'],
    [0, 'replay', 'tris:member-1'],
    [1, 'replay', 'tris:nobody'],
    [2, 'replay', 'tris:member-1', '--limit', '0'],
    [0, 'verify', '--json'],
    [0, 'verify'],
    [0, 'verify', '--index'],
    [2, 'verify', '--repair'],
    [0, 'rebuild', 'all'],
    [0, 'swap', 'g2'],
    [0, 'rollback'],
    [0, 'drop', 'g2'],
    [1, 'swap', 'g99'],
    [0, 'dead-letters', 'list'],
    [0, 'dead-letters', 'acknowledge', '--all', '--reason', 'old'],
    [0, 'ap', 'create', '<folder>/ap.json'],
    [2, 'ap', 'create', '<folder>/ap-wrong.json'],
    [2, 'ap', 'create', '<folder>/none.json'],
    [0, 'ap', 'list'],
    [0, 'ap', 'show', 'AP_A_V1'],
    [0, 'ap', 'check', 'AP_A_V1', 'tris:member-1'],
    [0, 'export', '--csv', 'decisions'],
    [0, 'ap', 'retire', 'AP_A_V1'],
    [0, 'access', 'audit', 'tris:member-1'],
    [0, 'vp', 'create', '<folder>/vp.json'],
    [0, 'vp', 'evaluate', 'VP_A_V1'],
    [0, 'vp', 'evaluate', '<folder>/vp.json'],
    [0, 'vp', 'diff', 'active', 'VP_A_V1'],
    [0, 'vp', 'diff', 'active', 'VP_A_V1', '--csv', '<folder>/diff.csv'],
    [0, 'vp', 'diff', 'active', 'VP_A_V1', '--ndjson', '-'],
    [0, 'vp', 'replay', 'VP_A_V1', '--json'],
    [0, 'vp', 'promote', 'VP_A_V1'],
    [0, 'vp', 'rollback', 'VP_A_V1'],
    [0, 'vp', 'retire', 'VP_A_V1'],
    [1, 'policies', 'plan', '<folder>/policies'],
    [0, 'policies', 'apply', '<folder>/policies'],
    [0, 'policies', 'plan', '<folder>/policies'],
    [0, 'models', 'list'],
    [0, 'models', 'replay', 'disc-1'],
    [0, 'models', 'promote', 'disc-1'],
    [0, 'models', 'rollback', 'disc-1'],
    [0, 'orgs', 'register', 'tris:org', '--platforms', 'one,two'],
    [0, 'orgs', 'list'],
    [0, 'orgs', 'show', 'tris:org'],
    [0, 'orgs', 'vet', 'tris:org'],
    [0, 'orgs', 'revoke', 'tris:org'],
    [1, 'texts', 'delete', '0'.repeat(64)],
    [0, 'backup', '<folder>/copy'],
    [1, 'backup', '<folder>/copy'],
    [0, 'verify'],
  ];

  const run = (store: Store, args: readonly string[]) => {
    const input = members(300, 320)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join('');
    const given = args.map((argument) => argument.replace('<folder>', store.folder));
    return runCommand(given, store.env, args.at(-1) === '-' ? input : '');
  };
  const files = (store: Store) =>
    ['all.ndjson', 'diff.csv'].map((name) => {
      const path = join(store.folder, name);
      return existsSync(path)
        ? normal(store.folder, { code: 0, stdout: readFileSync(path, 'utf8'), stderr: '' }).stdout
        : '';
    });

  test.each(STEPS)('%i: %s %s %s %s', async (code, ...args) => {
    const [there, here] = [await run(served, args), await run(alone, args)];
    expect(normal(served.folder, there)).toEqual(normal(alone.folder, here));
    expect(here).toMatchObject({ code });
    expect(files(served)).toEqual(files(alone));
    expect(server.child.exitCode).toBeNull();
  });
});

describe('the server that owns a folder', () => {
  let store: Store;
  let server: Server;
  beforeAll(async () => {
    store = await Store.create({ isBuilt: true });
    await store.json('import', store.file('first.ndjson', members(0, 2_000)));
    server = await Server.start({ data: store.data });
  }, SLOW);
  afterEach(() => expect(server.child.exitCode ?? server.child.signalCode).toBeNull());
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
    await store.remove();
  });

  const status = async () => {
    const { code, stdout, stderr } = await runCommand(['status', '--json'], store.env);
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as Status;
  };

  test('records who called a command, as the caller says', async () => {
    const actorOf = async (tris: string, variables: Record<string, string>) => {
      const ran = await runCommand(['orgs', 'register', tris, '--platforms', tris.slice(5)], {
        ...store.env,
        ...variables,
      });
      expect(ran).toMatchObject({ code: 0, stderr: '' });
      const { stdout } = await runCommand(['export', tris], store.env);
      return JSON.parse(stdout.slice(0, stdout.indexOf('\n'))).metadata.actor;
    };
    expect(await actorOf('tris:by-anna', { CREDENCE_ACTOR: 'anna' })).toBe('cli:anna');
    expect(await actorOf('tris:by-user', {})).toBe(`cli:${userInfo().username}`);
    const { code, stderr } = await runCommand(['orgs', 'list'], { ...store.env, CREDENCE_ACTOR: 'anna@example.org' });
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('CREDENCE_ACTOR must have 1 to 64 letters, digits or ._-'),
    ]);
  });

  test(
    'shows the progress of a command on the terminal of its caller',
    async () => {
      const file = store.file('progress.ndjson', members(20_000, 40_000));
      const command = `exec ${process.execPath} dist/src/cli.js import ${file}`;
      const { code, stdout } = await ended(
        spawnCommand(['import', file], store.env, {
          node: scriptOf(store, `exec script -qefc '${command}' /dev/null`),
        }),
      );
      expect(code).toBe(0);
      // A bar, which only a terminal gets.
      expect(stdout).toMatch(/Recording █.*%/);
    },
    SLOW,
  );

  test.each(
    longCases<['SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGKILL', number | null]>(
      [
        ['SIGINT', 1],
        ['SIGKILL', null],
      ],
      [
        ['SIGTERM', 1],
        ['SIGHUP', null],
      ],
    ),
  )(
    'ends a command whose caller gets %s',
    async (signal, code) => {
      const [from, lines] = [{ SIGINT: 100_000, SIGTERM: 200_000, SIGHUP: 300_000, SIGKILL: 400_000 }[signal], 10_000];
      const file = store.file(`${signal}.ndjson`, members(from, from + lines));
      const { events } = await status();
      const child = store.spawn(['import', file]);
      const ran = ended(child);
      await eventually(async () => (await status()).events > events, 'an event of the import');
      child.kill(signal);
      const { code: ended_with, stdout, stderr } = await ran;
      expect([ended_with, stdout]).toEqual([code, '']);
      if (code !== null) expect(stderr).toMatch(/(^|\n)credence: The command was interrupted\.\n$/);
      // It is no longer carried out: no event is added, and the rest of the file is not recorded.
      const { events: then } = await status();
      expect(then).toBeLessThan(events + 2 * lines);
      expect((await status()).events).toBeLessThanOrEqual(then + 2 * 2_000);
      rmSync(file);
    },
    SLOW,
  );

  test(
    'carries out several commands at once',
    async () => {
      const lines = members(60_000, 62_000).map((one) => ({ ...one, tris_id: 'tris:together' }));
      const file = store.file('together.ndjson', lines);
      const [one, other, verified, exported] = await Promise.all([
        store.json<{ recorded: number; already_present: number }>('import', file),
        store.json<{ recorded: number; already_present: number }>('import', file),
        store.run('verify'),
        store.run('export', 'tris:member-1'),
      ]);
      expect([one.recorded + one.already_present, other.recorded + other.already_present]).toEqual([2_000, 2_000]);
      expect([verified.code, exported.code]).toEqual([0, 0]);
      // Each line once, whichever of them recorded it. A command before them that was killed may record its last batch now.
      const { stdout } = await store.run('export', 'tris:together');
      expect(stdout.match(/"type":"ActionRelayed"/g)).toHaveLength(2_000);
    },
    SLOW,
  );

  test('is waited for by a command, which says so, while it is stopped', async () => {
    server.child.kill('SIGSTOP');
    const child = store.spawn(['status', '--json']);
    const ran = ended(child);
    await once(child.stderr!, 'data').finally(() => server.child.kill('SIGCONT'));
    const waiting = `Waiting for the service that owns ${store.data}, which has not answered yet.\n`;
    expect(await ran).toMatchObject({ code: 0, stderr: waiting });
  });

  test('goes on when the output of a command is closed', async () => {
    const child = store.spawn(['export']);
    child.stdout!.once('data', () => child.stdout!.destroy());
    expect((await ended(child)).code).toBe(0);
  });

  test(
    'refuses an export of another log at once, whatever its size',
    async () => {
      const other = await Store.create({ isBuilt: true });
      try {
        await other.json('import', other.file('lines.ndjson', members(0, 3_000)));
        const file = join(other.folder, 'export.ndjson');
        expect((await other.run('export', '--out', file)).code).toBe(0);
        const refused = await store.run('import', file);
        expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^credence: .*\.\n$/) });
      } finally {
        await other.remove();
      }
    },
    SLOW,
  );

  test(
    'accepts 10,000 arguments',
    async () => {
      const ids = Array.from({ length: 10_000 }, (_, n) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`);
      const { code, stderr } = await store.run('dead-letters', 'acknowledge', '--reason', 'old', ...ids);
      expect([code, stderr.length > 0]).toEqual([1, true]);
    },
    SLOW,
  );

  describe('refuses what is no command', () => {
    const socket = () => join(store.data, 'owner.sock');
    const answered = async (line: string, path = '/commands') => {
      const call = request({ socketPath: socket(), method: 'POST', path });
      call.write(line);
      const [answer] = await once(call, 'response');
      const body = await text(answer);
      call.destroy();
      return [answer.statusCode, body];
    };
    const call = (more: object) =>
      `${JSON.stringify({ version: VERSION, argv: ['status'], actor: 'cli:test', terminal: { isTTY: false, columns: null }, ...more })}\n`;

    test.each([{}, { actor: undefined }])('of another version, with both: %j', async (more) => {
      expect(await answered(call({ version: '0.0.1', ...more }))).toEqual([
        409,
        `The versions differ: the command is of version 0.0.1, the service that owns the folder of version ${VERSION}. Use the command of that version.`,
      ]);
    });

    test.each([undefined, 7, 'anna', 'key:anna', 'cli:', 'cli:anna@example.org', 'cli:anna\n'])(
      'whose actor is not one of the command line: %j',
      async (actor) => {
        expect(await answered(call({ actor }))).toEqual([400, 'The command cannot be read: it names no actor.']);
      },
    );

    test('with a wrong first line, or a path of its own', async () => {
      expect(await answered('{\n')).toEqual([400, 'The command cannot be read: a line is no JSON.']);
      expect(await answered('{}\n')).toEqual([400, 'The command cannot be read: the first line is no command.']);
      expect(await answered(call({ argv: [1] }))).toEqual([
        400,
        'The command cannot be read: the first line is no command.',
      ]);
      expect(await answered(call({}), '/other')).toEqual([404, 'POST /commands runs a command']);
    });

    test.each(['serve', 'keys', 'signing-keys', 'migrate'])('that works without the stores: %s', async (name) => {
      const rest = {
        serve: [],
        keys: ['list'],
        'signing-keys': ['list'],
        migrate: ['--from', 'embedded', '--to', 'cluster'],
      };
      const [status, body] = await answered(call({ argv: [name, ...rest[name as 'serve']] }));
      expect(status).toBe(200);
      expect(body).toMatch(/"exit":2/);
      expect(body).toMatch(/The service does not carry out this command/);
    });

    test(
      'of which half has come after ten seconds, while others go on',
      async () => {
        const head = 'POST /commands HTTP/1.1\r\nHost: credence\r\n';
        const halves = ['', head, `${head}Transfer-Encoding: chunked\r\n\r\n7\r\n{"versi\r\n`];
        const started = performance.now();
        const closed = halves.map(async (half) => {
          const client: Socket = connect(socket());
          client.write(half);
          client.resume().on('error', () => undefined);
          await once(client, 'close');
          return (performance.now() - started) / 1_000;
        });
        expect((await store.run('status')).code).toBe(0);
        for (const seconds of await Promise.all(closed)) {
          expect(seconds).toBeGreaterThan(9);
          expect(seconds).toBeLessThan(20);
        }
      },
      SLOW,
    );
  });

  test(
    'is there under a path that is too long for a socket',
    async () => {
      const data = join(store.folder, 'long'.repeat(30), 'data');
      const long = await Server.start({ data });
      try {
        expect(
          JSON.parse((await runCommand(['status', '--json'], { CREDENCE_DATA: data })).stdout).events,
        ).toBeGreaterThan(0);
        expect(existsSync(join(data, 'owner.sock'))).toBe(true);
      } finally {
        expect(await long.stop()).toBe(0);
      }
      expect(existsSync(join(data, 'owner.sock'))).toBe(false);
    },
    SLOW,
  );

  test(
    'decides which modules there are',
    async () => {
      const data = join(store.folder, 'few');
      const few = await Server.start({ data, env: { CREDENCE_MODULES: 'relay,disc' } });
      try {
        const sentence =
          'credence: The service that runs on the folder leaves out what this needs: see its CREDENCE_MODULES.\n';
        for (const args of [
          ['ap', 'list'],
          ['vp', 'retire', 'VP_A_V1'],
          ['orgs', 'list'],
        ]) {
          expect(await runCommand(args, { CREDENCE_DATA: data })).toEqual({ code: 1, stdout: '', stderr: sentence });
        }
        expect((await runCommand(['verify'], { CREDENCE_DATA: data })).code).toBe(0);
      } finally {
        await few.stop();
      }
    },
    SLOW,
  );

  test(
    'still has a sound log after all that',
    async () => {
      expect(await store.run('verify')).toMatchObject({ code: 0, stdout: expect.stringMatching(/identical\n$/) });
    },
    SLOW,
  );
});

describe('without a server', () => {
  let store: Store;
  let owner: Child;
  beforeEach(async () => {
    store = await Store.create();
    await store.json('import', store.file('lines.ndjson', members(0, 20)));
    owner = new Child(new URL('../embedded/processes/owner.ts', import.meta.url), [store.data, 'import lines']);
    expect(await owner.printed(1)).toEqual(['owned']);
  }, SLOW);
  afterEach(async () => {
    await owner.kill();
    await store.remove();
  });
  const named = () => `process ${owner.pid} on ${hostname()} \\(credence import lines ${VERSION}, since \\S+\\)`;

  test('a command waits for another one, says so, and goes on when it ends', async () => {
    const child = store.spawn(['status', '--json']);
    const ran = ended(child);
    await once(child.stderr!, 'data');
    await owner.kill();
    const { code, stdout, stderr } = await ran;
    expect([code, JSON.parse(stdout).events]).toEqual([0, 41]);
    expect(stderr).toMatch(new RegExp(`^Waiting for ${named()}, which works on ${store.data}\\.\n$`));
  });

  test('--no-wait refuses with the name of the owner', async () => {
    const { code, stderr } = await store.run('--no-wait', 'status');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^credence: ${store.data} is in use by ${named()}: only one process at a time may open it\\.\n$`),
    );
  });

  test('migrate is refused', async () => {
    store.variables['EVENTSTORE_URL'] = 'esdb://127.0.0.1:1?tls=false';
    const { code, stderr } = await store.run('migrate', '--from', 'embedded', '--to', 'cluster');
    expect([code, stderr]).toEqual([1, expect.stringMatching(new RegExp(`^credence: \\S+ is in use by ${named()}`))]);
  });

  describe('a control socket that is not the server’s', () => {
    const socket = () => join(store.data, 'owner.sock');
    const isNone = () => `${socket()} is no socket, and Credence did not create it: remove it.\n`;

    test.each(['symlink', 'file', 'folder'])(
      'a %s is refused by commands and by a server',
      async (kind) => {
        if (kind === 'symlink') symlinkSync('/nowhere', socket());
        if (kind === 'file') writeFileSync(socket(), '');
        if (kind === 'folder') mkdirSync(socket());
        const refused = { code: 1, stderr: `credence: ${isNone()}` };
        expect(await store.run('status')).toMatchObject(refused);
        expect(await ended(spawnServer(store.env))).toMatchObject(refused);
        await owner.kill();
        expect(await ended(spawnServer(store.env))).toMatchObject(refused);
        // No server can be there: a command works.
        expect((await store.run('status')).code).toBe(0);
      },
      SLOW,
    );
  });
});

describe('a command that creates the store refuses with one sentence a folder that', () => {
  test.each([
    ['is a file', 'is not a folder'],
    ['cannot be created', 'cannot be created or written (ENOENT)'],
  ])('%s', async (kind, sentence) => {
    const store = await Store.create();
    try {
      const file = store.file('lines.ndjson', members(0, 1));
      const data = kind === 'is a file' ? file : '/proc/credence/data';
      const { code, stderr } = await store.run('--data', data, 'import', file);
      expect([code, stderr]).toEqual([1, `credence: CREDENCE_DATA names ${data}, which ${sentence}.\n`]);
    } finally {
      await store.remove();
    }
  });
});

describe('a caller that reads nothing', () => {
  test('holds up only its own command, which keeps little in memory and ends with it', async () => {
    const store = await Store.create();
    mkdirSync(store.data);
    let [slices, hasEnded] = [0, false];
    const event = {
      position: 1,
      stream: 'a',
      revision: 0,
      id: 'x',
      type: 'T',
      data: { text: 'x'.repeat(10_000) },
      metadata: {},
    };
    const eventStore = {
      countAfter: async () => 1,
      readAll: async function* () {
        try {
          for (; ; slices++) yield [event];
        } finally {
          hasEnded = true;
        }
      },
    };
    const server = await listenForCommands(store.data);
    try {
      server.start({ stores: { eventStore }, get: () => undefined } as unknown as Host);
      const call = request({ socketPath: join(store.data, 'owner.sock'), method: 'POST', path: '/commands' });
      call.on('error', () => undefined);
      call.write(
        `${JSON.stringify({ version: VERSION, argv: ['export'], actor: 'cli:test', terminal: { isTTY: true, columns: 80 } })}\n`,
      );
      const [answer] = await once(call, 'response');
      answer.on('error', () => undefined);
      let last = -1;
      await eventually(async () => {
        const same = slices === last && slices > 0;
        last = slices;
        await new Promise((resolve) => setImmediate(resolve));
        return same;
      });
      // Of 10 kB each: what the system and both ends of the connection keep.
      expect(slices).toBeLessThan(200);
      call.destroy();
      await eventually(() => hasEnded, 'the end of the command');
    } finally {
      await server.close();
      await store.remove();
    }
  });
});

/** A program to start instead of Node. */
function scriptOf(store: Store, script: string): string {
  const path = store.file('program.sh', ['#!/bin/sh', script]);
  execFileSync('chmod', ['+x', path]);
  return path;
}
