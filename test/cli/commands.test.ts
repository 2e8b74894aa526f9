import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plantEvent } from '../contracts/sample-events.js';
import { eventually } from '../contracts/harness.js';
import { closeStores, openStores } from '../../src/stores/open.js';
import { action, actions, SLOW, Store } from './credence.js';
import { Server } from '../e2e/server.js';

const imported = async () => {
  const made = await Store.create();
  expect((await made.run('import', made.file('actions.ndjson', actions(200)))).code).toBe(0);
  return made;
};
let store: Store;
beforeAll(async () => {
  store = await imported();
}, SLOW);
afterAll(() => store.remove());

interface Status {
  log_id: string;
  head: string;
  generations: { status: string; lag_events: number; lease: object | null; serves: string[] }[];
  dead_letters: { open: number };
  failed_jobs: { count: number };
}

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(await store.run('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
});

test(
  'status and import work alone and beside a server, which keeps the read models',
  async () => {
    const store = await imported();
    const alone = await store.json<Status>('status');
    expect(alone.head).toBe(`${alone.log_id}.372`);
    expect(alone.generations).toMatchObject([{ status: 'ready', lag_events: 0, lease: null }]);
    expect(alone.generations[0]!.serves).toContain('timeline');
    expect(alone).toMatchObject({ dead_letters: { open: 0, acknowledged: 0 }, failed_jobs: { count: 0 } });

    const server = await Server.start({ data: store.data });
    expect((await server.relay(action(1, { external_id: 'live' }))).status).toBe(202);
    const beside = await store.json<Status>('status');
    expect(beside.head).toBe(`${alone.log_id}.374`);
    expect(beside.generations[0]!.lease).toMatchObject({ holder: expect.any(String) });
    const both = store.file('beside.ndjson', [action(1, { external_id: 'live' }), action(14, { external_id: 'new' })]);
    expect(await store.json('import', both)).toMatchObject({ recorded: 1, already_present: 1 });
    const { code, stdout } = await store.run('status');
    await server.stop();
    expect(stdout).toMatch(/^log \S+: 375 events, head \S+\.375\ngeneration +status +serves/);
    expect(stdout).toMatch(/\ng1 +ready +all its views/);
    expect(stdout).toMatch(/dead letters: 0 open, 0 acknowledged\nfailed jobs: 0\n$/);
    expect(code).toBe(0);
    await store.remove();
  },
  SLOW,
);

interface Replayed {
  events: number;
  entries: { tct_delta: number; total_tct: number; score: number }[];
  score: Record<string, unknown>;
}

test(
  'replay prints the events, their effect and the score with its coordinates',
  async () => {
    const { events, entries, score } = await store.json<Replayed>('replay', 'tris:member-7');
    expect(events).toBe(4);
    // Flagged once: 7, 57, 107 and 157 are its actions, and 7 divides by 7.
    expect(entries.map(({ tct_delta, total_tct }) => [tct_delta, total_tct])).toEqual([
      [-300, 0],
      [30, 0],
      [30, 0],
      [30, 0],
    ]);
    expect(score).toMatchObject({
      score: 6,
      score_rating: 'BAD',
      as_of: expect.any(String),
      position: expect.any(String),
    });
    expect(score).toMatchObject({ lens: { policy_id: null }, model: { id: 'disc-2' } });

    const past = await store.json<Replayed>(
      'replay',
      'tris:member-7',
      '--as-of',
      '2020-01-01T12:00:00Z',
      '--limit',
      '1',
    );
    expect(past).toMatchObject({ events: 1, entries: [{ tct_delta: -300 }] });
    expect(past.score).toMatchObject({ as_of: '2020-01-01T12:00:00.000Z', total_tct: 0 });

    const policy = {
      policy_id: 'VP_TRADE_V1',
      tris_org: 'tris:org:t',
      inputs: [{ metric: 'social_trade_rating', criticality: 'Critical', weight: 0.14 }],
      metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
    };
    expect((await store.run('vp', 'create', store.file('policy.json', [policy]))).code).toBe(0);
    const through = await store.json<Replayed>('replay', 'tris:member-7', '--vp', 'VP_TRADE_V1');
    expect(through.entries.map(({ tct_delta }) => tct_delta)).toEqual([0, 140, 140, 140]);
    expect(through.score).toMatchObject({ total_tct: 420, lens: { policy_id: 'VP_TRADE_V1' } });
    const early = await store.json<Replayed>(
      'replay',
      'tris:member-7',
      '--vp',
      'VP_TRADE_V1',
      '--as-of',
      '2020-01-03T12:00:00Z',
    );
    expect(early.score).toMatchObject({ total_tct: 140, as_of: '2020-01-03T12:00:00.000Z' });
    const unknown = await store.run('replay', 'tris:member-7', '--vp', 'VP_NONE_V1');
    expect([unknown.code, unknown.stderr]).toEqual([1, 'credence: There is no validation policy VP_NONE_V1.\n']);

    const { code, stdout } = await store.run('replay', 'tris:member-7', '--limit', '2');
    expect(stdout).toMatch(/^position +occurred +event +metric/);
    expect(stdout).toMatch(
      /\(2 earlier events not shown\)\n\ntris:member-7: score 6 \(BAD\), total TCT 0 = 90 earned - 300/,
    );
    expect(stdout).toMatch(
      /\nas of \S+, position \S+\.\d+\nlens of the model [0-9a-f]{64}\nmodel disc-2 [0-9a-f]{64}\n$/,
    );
    expect(code).toBe(0);
  },
  SLOW,
);

test(
  'replay shows a BAD status with its level, reason and time',
  async () => {
    const stores = await openStores(store.data, Date.now);
    const data = { tris_id: 'tris:member-9', level: 2, reason_code: 'fraud' };
    await plantEvent(stores.eventStore, 'identity-tris:member-9', 'BadStatusSet', data);
    await closeStores(stores);
    expect((await store.run('import', store.file('none.ndjson', [action(9)]))).code).toBe(0);
    const { score, entries } = await store.json<Replayed>('replay', 'tris:member-9');
    const shown = { level: 2, reason_code: 'fraud', since: expect.stringMatching(/Z$/) };
    expect([score['bad_status'], entries.at(-1)]).toMatchObject([shown, { score: 2, bad_status: shown }]);
    const { stdout } = await store.run('replay', 'tris:member-9');
    expect(stdout).toMatch(/ BadStatusSet \(level 2, fraud\) +- /);
    expect(stdout).toMatch(/\ntris:member-9: score 2 \(BAD\), .*\nBAD status: level 2, fraud, since \S+Z\nas of /);
  },
  SLOW,
);

test.each([[['--data', '', 'status']], [['backup', '']]])('an empty name of a folder is refused: %j', async (args) => {
  expect(await store.run(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining('It is empty.') });
});

test('a usage error cannot change the terminal', async () => {
  const { code, stderr } = await store.run('\u001b[31m');
  expect([code, stderr]).toEqual([2, "credence: unknown command '\\u001b[31m'\n(see --help)\n"]);
});

test(
  'keys are made, listed without their secrets, and revoked',
  async () => {
    const made = await store.run(
      'keys',
      'create',
      '--id',
      'lender',
      '--scopes',
      'relay:write,trove:write,relay:write',
      '--organization',
      'tris:org:l',
    );
    expect(made.stdout).toMatch(/^credence_[\w-]{43}\n$/);
    expect(await store.json('keys', 'list')).toContainEqual({
      id: 'lender',
      scopes: ['relay:write', 'trove:write'],
      organization: 'tris:org:l',
    });
    const described = await store.json<Record<string, unknown>>(
      'keys',
      'create',
      '--id',
      'y',
      '--scopes',
      'relay:write',
    );
    expect(described).toEqual({
      id: 'y',
      key: expect.stringMatching(/^credence_[\w-]{43}$/),
      scopes: ['relay:write'],
      organization: null,
    });
    expect((await store.run('keys', 'create', '--id', 'x', '--scopes', 'everything')).code).toBe(2);
    expect(
      await store.run('keys', 'create', '--id', 'x', '--scopes', 'ops', '--organization', 'tris:org:l'),
    ).toMatchObject({ code: 2, stderr: expect.stringContaining('The scope ops is for keys') });
    expect(await store.run('keys', 'revoke', 'lender')).toMatchObject({ code: 0, stdout: 'revoked lender\n' });
    expect(await store.run('keys', 'revoke', 'lender')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^credence: There is no key lender in \S+\.\n$/),
    });
    // `keys list` shows it.
    expect(await store.run('keys', 'revoke', 'dev')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^credence: There is no key dev in \S+: the development key ends with NODE_ENV/),
    });
  },
  SLOW,
);

test(
  'keys list leaves out the development key where the service does not accept it',
  async () => {
    writeFileSync(join(store.data, 'dev-api-key'), `credence_${'k'.repeat(43)}\n`);
    const ids = async () => (await store.json<{ id: string }[]>('keys', 'list')).map(({ id }) => id);
    expect(await ids()).toContain('dev');
    const { NODE_ENV } = process.env;
    process.env['NODE_ENV'] = 'production';
    try {
      expect(await ids()).not.toContain('dev');
    } finally {
      process.env['NODE_ENV'] = NODE_ENV;
    }
    writeFileSync(join(store.data, 'dev-api-key'), 'c');
    expect(await store.run('keys', 'list')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^credence: \S+dev-api-key contains no key; delete it, [^\n]+\n$/),
    });
  },
  SLOW,
);

test('a folder that cannot be read is not taken for an empty one', async () => {
  // A link to itself: root, as whom containers run tests, may read every folder.
  const path = join(store.folder, 'unreadable');
  symlinkSync(path, path);
  for (const command of ['keys list', 'status', 'export']) {
    expect(await store.run('--data', path, ...command.split(' '))).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `credence: ${path} cannot be read (ELOOP).\n`,
    });
  }
});

test(
  'organizations are registered, vetted, shown and revoked',
  async () => {
    expect(await store.run('orgs', 'register', 'tris:org:a', '--platforms', 'p-1,p-2')).toMatchObject({ code: 0 });
    expect(await store.run('orgs', 'vet', 'tris:org:a')).toMatchObject({ code: 0, stdout: 'tris:org:a is vetted\n' });
    const vetted = { tris_org: 'tris:org:a', vetted: true, platform_ids: ['p-1', 'p-2'] };
    expect(await store.json('orgs', 'show', 'tris:org:a')).toMatchObject(vetted);
    expect((await store.run('orgs', 'list')).stdout).toMatch(/tris:org:a +yes +20/);
    expect(await store.run('orgs', 'revoke', 'tris:org:a')).toMatchObject({ code: 0 });
    expect(await store.json('orgs', 'list')).toMatchObject([{ tris_org: 'tris:org:a', vetted: false }]);

    const taken = await store.run('orgs', 'register', 'tris:org:b', '--platforms', 'p-2');
    expect(taken.stderr).toMatch(/^credence: p-2 is registered to another organization[^\n]*\n$/);
    expect(taken.code).toBe(1);
    expect(await store.run('orgs', 'vet', 'tris:org:b')).toMatchObject({ code: 1 });
  },
  SLOW,
);

test('keys that are to be listed or changed before there are any are told to be created', async () => {
  const fresh = await Store.create();
  const file = join(fresh.data, 'voucher-keys.json');
  for (const command of ['list', 'rotate', 'prune']) {
    expect(await fresh.run('signing-keys', command, '--vouchers')).toMatchObject({
      code: 1,
      stderr: `credence: ${file} does not exist; "signing-keys create --vouchers" creates it.\n`,
    });
  }
  await fresh.remove();
});

test(
  'the revocation of a signing key says that secrets of webhooks end, and their owners are listed',
  async () => {
    const store = await Store.create();
    const server = await Server.start({ data: store.data });
    expect(await store.run('signing-keys', 'webhooks')).toMatchObject({ code: 0, stdout: 'no webhooks\n' });
    const webhook = { url: 'https://lender.example/hook', events: ['policy.promoted'] };
    const { webhook_id } = (await server.client.post('/v1/webhooks', { body: webhook as never })).data;
    const listed = async () => (await store.run('signing-keys', 'webhooks')).stdout;
    await eventually(async () => (await listed()).includes(webhook_id), 'the webhook is listed');
    expect(await listed()).toMatch(/^webhook +owner\nwhk_\w+ +operators\n$/);
    const [{ kid }] = (await store.json('signing-keys', 'list')) as [{ kid: string }];
    expect(await store.run('signing-keys', 'revoke', '--vouchers', '--overlap', '--', kid)).toMatchObject({ code: 2 });
    expect(await store.run('signing-keys', 'revoke', '--', kid)).toMatchObject({
      code: 0,
      stderr: 'The secrets of all webhooks have changed: "signing-keys webhooks" lists whose.\n',
    });
    await server.stop();
    await store.remove();
  },
  SLOW,
);

const calls: [number, string[]][] = [
  [2, ['status', '--colour']],
  [2, ['import']],
  [2, ['import', '/nowhere/at/all.ndjson']],
  [2, ['replay', 'tris:member-1', '--as-of', 'yesterday']],
  [2, ['replay', 'tris:member-1', '--limit', '0']],
  [2, ['orgs', 'register', 'tris:acme', '--platforms', 'white space']],
  [1, ['replay', 'tris:never-heard-of']],
  [1, ['status', '--data', '/nowhere/at/all']],
  [2, ['frobnicate']],
];

test(
  'a wrong call ends with 2, what cannot be done with 1, both with a sentence and no stack',
  async () => {
    for (const [expected, args] of calls) {
      const { code, stderr } = await store.run(...args);
      expect([args, code]).toEqual([args, expected]);
      expect(stderr).not.toMatch(/\n\s+at /);
      if (expected !== 0) expect(stderr).toMatch(/^credence: [^\n]+\n/);
    }
  },
  SLOW,
);
