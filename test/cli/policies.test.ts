import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { jest } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { stringify } from 'yaml';
import type { Host } from '../../src/cli/cli.js';
import { listenForCommands } from '../../src/cli/owner-server.js';
import { CreateAccessPolicy, CreateAccessPolicyHandler } from '../../src/features/access/ap.handlers.js';
import { Lenses } from '../../src/features/lenses/lenses.js';
import { Replays } from '../../src/features/validation-policies/replays.js';
import { configuration } from '../policies/configuration.js';
import { startService } from '../policies/service.fixture.js';
import { ended } from '../servers/launch.js';
import { SLOW, Store, action } from './credence.js';

const vp = (policy_id: string, criticality: string, weight: number, more: object = {}) => ({
  kind: 'vp',
  policy_id,
  tris_org: 'tris:lender',
  inputs: configuration([{ metric: 'finance_loan_repayment', criticality, weight }]),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
  ...more,
});
const ap = (policy_id: string, more: object = {}) => ({ kind: 'ap', policy_id, rules: { tct_min: 300 }, ...more });

const REPAID = { category: 'finance', action_type: 'loan_repayment' };

interface Planned {
  hash: string;
  files: { policy_id: string; state: string; promotes: object | null }[];
  promotions: { scope: string; tris_org: string | null; ratings: object; change: { up: number; count: number } }[];
  access: { policy_id: string; pass_before: number | null; pass_after: number }[];
  done?: string[];
}

const LENDING = {
  'access/loan.yaml': ap('AP_LOAN_V1', { vp: 'VP_LENDING_V1' }),
  'open.yaml': ap('AP_OPEN_V1'),
  'vp.yaml': vp('VP_LENDING_V1', 'Critical', 0.14, { promote: 'platform' }),
};

describe('credence policies', () => {
  /** Of the actions alone, and with the applied policies of LENDING: each test has a copy of the latter. */
  let [unruled, ruled]: Store[] = [];
  let store: Store;
  let folder: string;
  let files: Record<string, object | string>;
  const begin = async (from?: Store) => {
    store = await Store.create();
    folder = join(store.folder, 'policies');
    if (from) cpSync(from.data, store.data, { recursive: true });
    return store;
  };
  beforeAll(async () => {
    unruled = await begin();
    const actions = Array.from({ length: 90 }, (_, n) =>
      action(n, { external_id: `n-${n}`, tris_id: `tris:p${n % 30}`, ...REPAID }),
    );
    await store.json('import', store.file('actions.ndjson', actions));
    ruled = await begin(unruled);
    write(LENDING);
    expect((await apply()).code).toBe(0);
  }, SLOW);
  afterAll(() => Promise.all([unruled, ruled].map((each) => each?.remove())));
  beforeEach(() => begin(ruled));
  afterEach(() => store.remove());

  /** The folder with these files only. */
  const write = (wanted: Record<string, object | string>) => {
    files = wanted;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), typeof content === 'string' ? content : stringify(content));
    }
  };
  const plan = async () => {
    const { code, stdout, stderr } = await store.run('policies', 'plan', folder, '--json');
    return { code, stderr, ...(JSON.parse(stdout || '{}') as Planned) };
  };
  const apply = (...more: string[]) => store.run('policies', 'apply', folder, ...more);
  const head = async () => (await store.json<{ head: string }>('status')).head;

  test(
    'every error says its file, line and column, and nothing is written',
    async () => {
      const before = await head();
      write({
        'a.yaml': vp('VP_LENDING_V1', 'Critical', 0.14),
        'alias.yaml': 'kind: ap\npolicy_id: &id AP_ALIAS_V1\nrules: { tct_min: 1 }\nvp: *id\n',
        'again.yml': vp('VP_LENDING_V1', 'Critical', 0.14),
        'duplicate.yaml': 'kind: ap\npolicy_id: AP_TWICE_V1\nrules:\n  tct_min: 1\n  tct_min: 2\n',
        'field.yaml': 'kind: ap\npolicy_id: AP_FIELD_V1\nrules:\n  tct_min: 1\nttl: 60\n',
        'infinite.yaml': 'kind: ap\npolicy_id: AP_INF_V1\nrules: { tct_min: .inf }\n',
        'kind.yaml': 'policy_id: AP_KIND_V1\n',
        'list.yaml': '- kind: ap\n',
        'promoted.yaml': { ...ap('AP_PROMOTED_V1'), promote: 'platform' },
        'rules.yaml': 'kind: ap\npolicy_id: AP_RULES_V1\nrules:\n  any:\n    - tct_min: 1\n    - disc_min: 101\n',
        'scope.yaml': vp('VP_SCOPE_V1', 'Low', 0.03, { promote: 'world' }),
        'syntax.yaml': 'kind: ap\nrules: {\n',
        'two.yaml': 'kind: ap\n---\nkind: vp\n',
        'weak.yaml': { ...vp('VP_WEAK_V1', 'Low', 0.03), inputs: [], promote: 'platform' },
        'weight.yaml': vp('VP_WEIGHT_V1', 'Low', 0.07),
      });
      const { code, stdout, stderr } = await apply();
      expect([code, stdout]).toEqual([2, '']);
      for (const expected of [
        /^again\.yml?:2:12: VP_LENDING_V1 is in a\.yaml already$/m,
        /^alias\.yaml:4:5: .*no aliases/m,
        /^duplicate\.yaml:5:3: .*unique/m,
        /^field\.yaml:5:1: "ttl" is unknown; known are policy_id, rules, .*visibility$/m,
        /^infinite\.yaml:3:19: a number must be finite/m,
        /^kind\.yaml:1:1: kind must be vp or ap/m,
        /^list\.yaml:1:1: a policy is a mapping of fields/m,
        /^promoted\.yaml:5:10: only a policy of the kind vp can be promoted/m,
        /^rules\.yaml:6:17: must be a number from 0 to 100, not 101$/m,
        /^scope\.yaml:\d+:10: promote must be platform or organization/m,
        /^syntax\.yaml:3:1: /m,
        /^two\.yaml:2:1: a file has one policy/m,
        /^weak\.yaml:4:1: .*inputs/m,
        /^weight\.yaml:7:13: the weight of Low is 0.03, not 0.07/m,
        /^credence: Not all files of .* are valid; nothing was written/m,
      ]) {
        expect(stderr).toMatch(expected);
      }
      expect(await head()).toBe(before);

      const platform = { promote: 'platform' };
      write({ 'a.yaml': vp('VP_A_V1', 'Low', 0.03, platform), 'b.yaml': vp('VP_B_V1', 'Low', 0.03, platform) });
      const rivals = await plan();
      expect([rivals.code, rivals.stderr]).toEqual([
        2,
        expect.stringMatching(/^b\.yaml:\d+:10: the platform has one lens, and a\.yaml promotes VP_A_V1/),
      ]);
      const few = configuration([{ metric: 'finance_loan_repayment', criticality: 'Low', weight: 0.03 }]).slice(0, 1);
      write({ 'few.yaml': { ...vp('VP_FEW_V1', 'Low', 0.03, platform), inputs: few } });
      expect((await plan()).stderr).toMatch(/^few\.yaml:\d+:10: .* add up to 0.03, not 0.95 to 1.05/);
      write({ 'readme.md': 'no policy' });
      mkdirSync(join(folder, 'folder.yaml'));
      expect(await plan()).toMatchObject({ code: 2, stderr: expect.stringMatching(/There is no \.yaml file in/) });
      expect((await store.run('policies', 'plan', join(folder, 'none'))).stderr).toMatch(/none" is not a folder/);
    },
    SLOW,
  );

  test(
    'wide, deep and large files are refused at once, and nothing in a file changes the terminal',
    async () => {
      const fields = Array.from({ length: 40_000 }, (_, n) => `  k${n}: 1`).join('\n');
      write({
        'a\u001b[31m.yaml': 'kind: ap\n',
        'deep.yaml': `kind: ap\nrules: ${'['.repeat(20_000)}`,
        'large.yaml': `# ${'x'.repeat(2 ** 20)}\n`,
        'name.yaml': 'kind: vp\npolicy_id: "VP_\u202eX_V1"\n"\\e[31m": 1\n',
        'twice.yaml': 'kind: ap\npolicy_id: AP_A_V1\nrules: { tct_min: 1, tct_min: 2 }\n',
        'wide.yaml': `kind: ap\nrules:\n${fields}\n`,
      });
      const began = performance.now();
      const { code, stderr } = await plan();
      expect(performance.now() - began).toBeLessThan(15_000);
      expect(code).toBe(2);
      for (const hidden of ['\u001b', '\u202e', 'call stack']) expect(stderr).not.toContain(hidden);
      for (const expected of [
        /^a\\u001b\[31m\.yaml:/m,
        /^deep\.yaml:1:1: the file has too many levels$/m,
        /^large\.yaml:1:1: the file is longer than a policy may be$/m,
        /^name\.yaml:.*\\u202e/m,
        /^name\.yaml:.*\\u001b/m,
        /^twice\.yaml:3:22: names of fields must be unique$/m,
        /^wide\.yaml:.* at most 1000 members$/m,
      ]) {
        expect(stderr).toMatch(expected);
      }
    },
    SLOW,
  );

  test(
    'links to folders are not followed, and what is no file is refused',
    async () => {
      write({ 'a.yaml': ap('AP_LINKED_V1') });
      symlinkSync('.', join(folder, 'again'));
      expect(await plan()).toMatchObject({ code: 1, files: [{ policy_id: 'AP_LINKED_V1', state: 'new' }] });
      symlinkSync('nowhere', join(folder, 'broken.yaml'));
      execFileSync('mkfifo', [join(folder, 'pipe.yaml')]);
      const { code, stderr } = await plan();
      expect([code, stderr.split('\n').slice(0, 2)]).toEqual([
        2,
        ['broken.yaml:1:1: this is no file', 'pipe.yaml:1:1: this is no file'],
      ]);
    },
    SLOW,
  );

  test(
    'the plan shows what would change; apply does exactly that, and then there is nothing to do',
    async () => {
      await store.remove();
      await begin(unruled);
      write(LENDING);
      const before = await head();
      const first = await plan();
      expect(first).toMatchObject({
        code: 1,
        files: [{ state: 'new' }, { state: 'new' }, { state: 'new', promotes: { scope: 'platform', before: null } }],
        promotions: [{ scope: 'platform', tris_org: null, change: { count: 30, up: 30 } }],
      });
      // Three actions of each: 90 TCT by their own criticality, 420 as critical ones.
      const passes = { pass_before: null, pass_after: 30 };
      expect(first.access).toMatchObject([
        { policy_id: 'AP_LOAN_V1', ...passes },
        { policy_id: 'AP_OPEN_V1', ...passes },
      ]);
      expect((await plan()).hash).toBe(first.hash);
      expect(await head()).toBe(before);

      const other = await apply('--expect', '0'.repeat(64));
      expect([other.code, other.stdout, other.stderr]).toEqual([
        1,
        '',
        expect.stringMatching(new RegExp(`The plan is ${first.hash} now: .* Nothing was written; plan again`)),
      ]);
      expect((await apply('--expect', 'abc')).code).toBe(2);
      expect(await head()).toBe(before);

      const applied = await apply('--expect', first.hash);
      expect(applied).toMatchObject({ code: 0, stderr: '' });
      expect(applied.stdout).toMatch(
        /the platform: the model’s own lens → VP_LENDING_V1, 30 identities\n {2}ratings: \d+ up, 0 down\n/,
      );
      expect(applied.stdout).toMatch(
        /done: create VP_LENDING_V1\ndone: create AP_LOAN_V1\ndone: create AP_OPEN_V1\ndone: promote VP_LENDING_V1 for the platform\n$/,
      );
      expect(await store.json('ap', 'list')).toMatchObject([
        { policy_id: 'AP_LOAN_V1', vp: 'VP_LENDING_V1', tris_org: null },
        { policy_id: 'AP_OPEN_V1' },
      ]);
      const replayed = await store.json<{ score: { lens: object } }>('replay', 'tris:p1');
      expect(replayed.score.lens).toMatchObject({ policy_id: 'VP_LENDING_V1' });

      const after = await head();
      const again = await apply('--expect', first.hash);
      expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/\n\nnothing to do\nplan [0-9a-f]{64}\n$/)]);
      expect(await plan()).toMatchObject({ code: 0, files: [{ state: 'unchanged' }, {}, {}], promotions: [] });
      expect(await head()).toBe(after);
    },
    SLOW,
  );

  test(
    'the plan counts who passes the stored policies of the lens that is switched, of each once',
    async () => {
      const { execute } = CreateAccessPolicyHandler.prototype;
      const create = jest.spyOn(CreateAccessPolicyHandler.prototype, 'execute');
      create.mockImplementationOnce(function (this: CreateAccessPolicyHandler, { input: { content, context } }) {
        const actor = { ...context.actor, organization: 'tris:lender' };
        return execute.call(this, new CreateAccessPolicy({ content, context: { ...context, actor } }));
      });
      const { kind: _, ...owned } = ap('AP_LENDER_V1');
      expect((await store.run('ap', 'create', store.file('owned.json', [owned]))).code).toBe(0);
      create.mockRestore();
      write({
        'own.yaml': vp('VP_OWN_V1', 'Low', 0.03, { promote: 'organization' }),
        'platform.yaml': vp('VP_MILD_V1', 'Minimal', 0.01, { promote: 'platform' }),
      });
      const { promotions, access, code } = await plan();
      expect(code).toBe(1);
      expect(promotions).toMatchObject([
        { scope: 'organization', tris_org: 'tris:lender', change: { count: 30, up: 0, down: 30 } },
        { scope: 'platform', tris_org: null, ratings: { up: 0 }, change: { down: 30 } },
      ]);
      // AP_LOAN_V1 names its lens, so it is not affected.
      const change = { pass_before: 30, pass_after: 0, gained: 0, lost: 30 };
      expect(access).toEqual([
        { policy_id: 'AP_LENDER_V1', ...change },
        { policy_id: 'AP_OPEN_V1', ...change },
      ]);
    },
    SLOW,
  );

  test(
    'refuses what the stored policies do not allow, and says where',
    async () => {
      write({
        'loan.yaml': ap('AP_LOAN_V1', { vp: 'VP_LENDING_V1', ttl_seconds: 61 }),
        'new.yaml': ap('AP_NEW_V1'),
      });
      const before = await head();
      const changed = await plan();
      expect(changed).toMatchObject({ code: 1, files: [{ state: 'changed' }, { state: 'new' }] });
      expect(changed.stderr).toMatch(
        /^loan\.yaml:2:12: AP_LOAN_V1 exists with other content\. .* use a new version, such as AP_LOAN_V2/,
      );
      expect(await apply()).toMatchObject({ code: 1, stderr: expect.stringMatching(/nothing was written\.\n$/) });
      write({ 'lens.yaml': ap('AP_LENS_V1', { vp: 'VP_NONE_V1' }) });
      expect((await apply()).stderr).toMatch(/^lens\.yaml:5:5: There is no validation policy VP_NONE_V1, neither/);
      expect(await head()).toBe(before);

      const { policy } = Lenses.prototype;
      const retired = jest.spyOn(Lenses.prototype, 'policy');
      retired.mockImplementation(async function (this: Lenses, id) {
        return { ...(await policy.call(this, id)), retired: true };
      });
      write({ 'own.yaml': vp('VP_LENDING_V1', 'Critical', 0.14, { promote: 'organization' }) });
      const refused = await plan();
      retired.mockRestore();
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringMatching(/^own\.yaml:\d+:10: VP_LENDING_V1 is retired and cannot be promoted\.\n/),
      ]);

      const metric = { metric: 'governance_vote_participations', criticality: 'Low', weight: 0.03 };
      write({ 'typo.yaml': { ...vp('VP_TYPO_V1', 'Low', 0.03), inputs: [metric] } });
      expect((await plan()).stderr).toMatch(
        /^warning: typo\.yaml:5:13: .* did you mean governance_vote_participation\?/m,
      );

      write({ 'loan.yaml': ap('AP_GONE_V1') });
      await apply();
      await store.run('ap', 'retire', 'AP_GONE_V1');
      expect(await plan()).toMatchObject({
        code: 0,
        files: [{ state: 'retired' }],
        stderr: expect.stringMatching(/^warning: loan\.yaml:2:12: AP_GONE_V1 is retired/),
      });
    },
    SLOW,
  );

  test(
    'an apply that fails half way says how far it came; the next one continues',
    async () => {
      write({
        'own.yaml': vp('VP_HALF_V1', 'Low', 0.03, { promote: 'organization' }),
        'open.yaml': ap('AP_HALF_V1'),
      });
      const failing = jest.spyOn(CreateAccessPolicyHandler.prototype, 'execute');
      failing.mockRejectedValueOnce(new Error('the disk is full'));
      const failed = await apply();
      expect([failed.code, failed.stderr]).toEqual([
        1,
        'stopped at: create AP_HALF_V1; 1 of 3 steps are done. Run it again to continue.\ncredence: the disk is full\n',
      ]);
      const { done } = await store.json<Planned>('policies', 'apply', folder);
      expect(done).toEqual(['create AP_HALF_V1', 'promote VP_HALF_V1 for tris:lender']);
      failing.mockRestore();
    },
    SLOW,
  );

  test(
    'a plan no longer holds once a lens was switched',
    async () => {
      write({
        'next.yaml': vp('VP_NEXT_V1', 'High', 0.1, { promote: 'platform' }),
      });
      const { hash } = await plan();
      await store.run('vp', 'rollback', 'VP_LENDING_V1');
      const refused = await apply('--expect', hash);
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/plan again/)]);
      const { done } = await store.json<Planned>('policies', 'apply', folder, '--expect', (await plan()).hash);
      expect(done).toEqual(['create VP_NEXT_V1', 'promote VP_NEXT_V1 for the platform']);
    },
    SLOW,
  );

  test(
    'a lens that is switched while apply runs is not switched back',
    async () => {
      const { kind: _, ...next } = vp('VP_NEXT_V1', 'High', 0.1);
      write({
        'access.yaml': ap('AP_LAST_V1'),
        'lens.yaml': vp('VP_LAST_V1', 'Moderate', 0.07, { promote: 'platform' }),
      });
      expect((await store.run('vp', 'create', store.file('next.json', [next]))).code).toBe(0);
      // In a server whose handlers are those of this process.
      const { app, close, config, stores } = await startService({ CREDENCE_DATA: store.data });
      const owner = await listenForCommands(store.data);
      owner.start({ config, stores, get: ((token: Type) => app.get(token, { strict: false })) as Host['get'] });
      const served = (...args: string[]) => ended(store.spawn(args));
      const elsewhere = async (...args: string[]) => expect(await served(...args)).toMatchObject({ code: 0 });

      const { between } = Replays.prototype;
      const comparing = jest.spyOn(Replays.prototype, 'between');
      comparing.mockImplementationOnce(async function (this: Replays, ...args) {
        await elsewhere('vp', 'rollback', 'VP_LENDING_V1');
        return between.apply(this, args);
      });
      const first = await served('policies', 'apply', folder);
      comparing.mockRestore();
      expect([first.code, first.stderr]).toEqual([
        1,
        'credence: The policies or the lenses changed while this ran; plan again.\n',
      ]);
      expect((await served('ap', 'show', 'AP_LAST_V1')).code).toBe(1);

      const { execute } = CreateAccessPolicyHandler.prototype;
      const create = jest.spyOn(CreateAccessPolicyHandler.prototype, 'execute');
      create.mockImplementationOnce(async function (this: CreateAccessPolicyHandler, command) {
        await elsewhere('vp', 'promote', 'VP_NEXT_V1');
        return execute.call(this, command);
      });
      const second = await served('policies', 'apply', folder);
      create.mockRestore();
      await owner.close();
      await close();
      expect([second.code, second.stderr]).toEqual([
        1,
        'stopped at: promote VP_LAST_V1 for the platform; 2 of 3 steps are done. Run it again to continue.\n' +
          'credence: The lens of the platform changed while this ran; plan again.\n',
      ]);
      const { files: planned } = await plan();
      expect(planned).toMatchObject([{ state: 'unchanged' }, { promotes: { before: 'VP_NEXT_V1' } }]);
    },
    SLOW,
  );
});
