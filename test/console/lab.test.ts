import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { parseRatings, toNdjson } from '../../examples/otc.mjs';
import { DOCUMENTED_METRICS } from '../../src/scoring/names.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { runCommand } from '../servers/launch.js';
import {
  SCREENS,
  describeBrowser,
  holdBack,
  launch,
  picture,
  settled,
  tenths,
  violations,
  watchedPages,
} from './browser.js';

/** The policy lab of the built console in a browser, on the ratings of examples/. */

const OPERATOR = 'secret-operator';
const NOTHING = 'secret-nothing';

const input = (metric: string, criticality: keyof typeof MODEL.criticality_hundredths) => ({
  metric,
  criticality,
  weight: MODEL.criticality_hundredths[criticality] / 100,
});
const policy = (policy_id: string, inputs: readonly object[], tris_org = 'tris:otc') => ({
  policy_id,
  tris_org,
  inputs,
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});
/** As documented in docs/policies.md, and a version of it that can serve the platform. */
const TRADE_1 = policy('VP_TRADE_V1', [
  input('social_trade_rating', 'Moderate'),
  input('compliance_trade_flags', 'Minimal'),
]);
const TRADE_2 = policy('VP_TRADE_V2', [
  input('social_trade_rating', 'Critical'),
  input('compliance_trade_flags', 'Moderate'),
  ...['financial_txn_consistency', 'creative_code_contribution', 'security_verified_identity'].map((metric) =>
    input(metric, 'Critical'),
  ),
  input('educational_research_authorship', 'Critical'),
  input('behavioral_peer_feedback_score', 'Critical'),
  input('compliance_kyc_verified', 'Moderate'),
]);
const RULES = {
  all: [{ disc_min: 10 }, { not: { any: [{ rating_min: 'Excellent' }, { verification: ['zk-KYH'] }] } }],
};

describeBrowser('the policy lab', () => {
  const folder = mkdtempSync(join(tmpdir(), 'credence-lab-'));
  let server: Server;
  let browser: Browser;
  const newPage = watchedPages();

  beforeAll(async () => {
    const data = join(folder, 'data');
    const keys = join(folder, 'keys.json');
    const key = (secret: string, scopes: string[]) => ({
      id: secret,
      sha256: createHash('sha256').update(secret).digest('hex'),
      scopes,
    });
    const all = ['policies:write', 'access:check', 'ops'];
    writeFileSync(keys, JSON.stringify([key(OPERATOR, all), key(NOTHING, ['trove:write'])]));
    const ratings = parseRatings(readFileSync('examples/bitcoin-otc-excerpt.csv', 'utf8'));
    const { code } = await runCommand(['import', '-'], { CREDENCE_DATA: data }, toNdjson(ratings));
    expect(code).toBe(0);
    [server, browser] = await Promise.all([
      Server.start({ data, env: { CREDENCE_API_KEYS: keys, CREDENCE_RATE_LIMIT: '100000' } }),
      launch(),
    ]);
    server.key = OPERATOR;
    for (const body of [TRADE_1, TRADE_2]) expect((await server.post('/v1/policies/vp', body)).status).toBe(201);
    const access = { policy_id: 'AP_TRADE_V1', rules: RULES, visibility: 'public' };
    expect((await server.post('/v1/policies/ap', access)).status).toBe(201);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(hash: string, key: string | null = OPERATOR, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await newPage(browser, server.url, options);
    if (key !== null) await page.addInitScript(`sessionStorage.setItem('credence-key', '${key}')`);
    await page.goto(`${server.url}/console${hash}`);
    return page;
  }
  const goTo = (page: Page, hash: string) => page.goto(`${server.url}/console${hash}`);
  const numbersOf = async (page: Page, row: string | RegExp) =>
    (await page.getByRole('row', { name: row }).innerText()).split(/\s+/).filter((word) => /^[−+]?\d/.test(word));
  const editDraft = (page: Page, value: object | string) =>
    page.getByLabel('The policy as JSON').fill(typeof value === 'string' ? value : JSON.stringify(value));
  const draftOf = async (page: Page) => JSON.parse(await page.getByLabel('The policy as JSON').inputValue());
  const problemOf = (page: Page, label: string) =>
    page.locator('.mantine-InputWrapper-root', { has: page.getByLabel(label) }).locator('.mantine-InputWrapper-error');

  test('lists policies by name with their versions, and shows one, without a key', async () => {
    const page = await open('#/', null);
    await page.getByRole('link', { name: 'Policies', exact: true }).click();
    await page.getByText('The platform’s lens is the model’s own.').waitFor();
    const row = page.getByRole('row', { name: /^VP_TRADE/ });
    expect(await row.innerText()).toContain('tris:otc');
    expect(await row.getByRole('link', { name: 'VP_TRADE', exact: true }).getAttribute('href')).toBe(
      '#/lab/VP_TRADE_V2',
    );
    await page.getByRole('columnheader', { name: 'Visibility' }).waitFor();
    await page
      .getByRole('row', { name: /^AP_TRADE_V1/ })
      .getByText('public')
      .waitFor();
    expect(await page.title()).toBe('Policy lab · Credence console');
    await row.getByRole('link', { name: 'VP_TRADE_V2', exact: true }).press('Enter');
    await page.getByRole('heading', { level: 1, name: 'VP_TRADE_V2' }).waitFor();
    await page.getByRole('row', { name: /^social_trade_rating Critical 0.14/ }).waitFor();
    expect(await numbersOf(page, /^compliance 0.14/)).toEqual(['0.14']);
    await page.getByText('total_weight declares 1, but the weights of the inputs add up to 0.98').waitFor();
    await goTo(page, '#/lab/VP_NONE_V1');
    await page.getByRole('alert').filter({ hasText: 'policy_not_found' }).waitFor();
  });

  test('keeps form and JSON of a draft in step, finds faults as they are typed, and survives a reload', async () => {
    const page = await open('#/lab/VP_TRADE_V2');
    await settled(page);
    await page.getByRole('button', { name: 'Draft a new version' }).click();
    await page.getByText('The draft follows the rules.').waitFor();
    expect(await draftOf(page)).toEqual({ ...TRADE_2, policy_id: 'VP_TRADE_V3' });
    expect(await page.getByTestId('total-weight').innerText()).toBe('0.98');

    const options = (list: string) =>
      page.locator(`${list} option`).evaluateAll((all: any[]) => all.map(({ value }) => value));
    expect(await options('#metrics')).toEqual([...DOCUMENTED_METRICS]);
    const criticality = page.getByLabel('Criticality and weight').first();
    const choices = await criticality.locator('option').allInnerTexts();
    expect(choices).toEqual(CRITICALITIES.map((name) => `${name}, ${MODEL.criticality_hundredths[name] / 100}`));

    // Form → JSON.
    await criticality.selectOption('Low');
    expect((await draftOf(page)).inputs[0]).toEqual(input('social_trade_rating', 'Low'));
    expect(await numbersOf(page, /^social 0.03/)).toEqual(['0.03']);
    await page.getByLabel('Metric 1', { exact: true }).fill('sports_goals');
    expect(await problemOf(page, 'Metric 1').innerText()).toContain('must be <category>_<action>');
    await page.getByLabel('Metric 1', { exact: true }).fill('governance_vote');
    await page.getByLabel('Metric 2', { exact: true }).fill('behavioral_vote');
    expect(await problemOf(page, 'Metric 2').innerText()).toContain('behavioral_vote already has a weight in inputs/0');
    await page.getByRole('button', { name: 'Remove metric 2' }).click();
    await page.getByRole('button', { name: 'Add an input' }).click();
    expect((await draftOf(page)).inputs.at(-1)).toEqual({ metric: '', criticality: 'Moderate', weight: 0.07 });
    await page.getByLabel('Declared total weight').fill('1.06');
    expect(await problemOf(page, 'Declared total weight').innerText()).toContain('0.95 to 1.05');
    await page.getByText('2 things to correct.').waitFor();

    // JSON → form, also with what the form cannot produce.
    await editDraft(page, {
      ...TRADE_1,
      inputs: [{ ...TRADE_1.inputs[0], weight: 0.1 }, { metric: 7 }],
      metadata: null,
    });
    expect(await problemOf(page, 'Criticality and weight').first().innerText()).toContain(
      'the weight of Moderate is 0.07',
    );
    await page.getByText('must be one of Minimal, Low, Moderate, High, Critical').waitFor();
    await editDraft(page, '{"policy_id": ');
    await page.getByText(/^This is not JSON/).waitFor();
    expect(await page.getByRole('button', { name: 'Create the policy' }).isDisabled()).toBe(true);
    await page.reload();
    expect(await page.getByLabel('The policy as JSON').inputValue()).toBe('{"policy_id": ');
    await page.getByRole('button', { name: 'Start over' }).click();
    expect(await page.getByLabel('Id, with its version').inputValue()).toBe('VP_NEW_V1');
  });

  test('tries a draft on chosen identities with reasons, and on everyone, before it is stored', async () => {
    const subjects = ['tris:otc:1', 'tris:otc:905', 'tris:nobody'];
    const draft = { ...TRADE_1, policy_id: 'VP_TRADE_V7' };
    const asked = { policy: draft, scope: 'platform', subjects, access_policies: ['AP_TRADE_V1'] };
    const { results } = (await server.post('/v1/policies/vp/evaluate', asked)).json;
    const page = await open('#/lab/draft');
    await editDraft(page, draft);
    await page.getByLabel(/^Identities, up to 100/).fill(subjects.join('\n'));
    await page.getByRole('button', { name: 'Try on these' }).click();
    await page.getByText('the model’s own lens → VP_TRADE_V7').waitFor();
    for (const { tris_id, current, projected, reasons } of results.slice(0, 2)) {
      const row = await page.getByRole('row', { name: new RegExp(`^${tris_id} `) }).innerText();
      expect(row).toContain(tenths(current.score));
      expect(row).toContain(tenths(projected.score));
      for (const { metric } of reasons) expect(row).toContain(metric);
    }
    expect(results[1].access).toEqual([{ policy_id: 'AP_TRADE_V1', before: false, after: true }]);
    expect(await page.getByRole('row', { name: /^tris:otc:905 / }).innerText()).toContain('gains AP_TRADE_V1');
    await page
      .getByRole('row', { name: /^tris:nobody / })
      .getByText(results[2].problem.detail)
      .waitFor();
    await page.getByRole('checkbox', { name: 'With access decisions' }).uncheck();
    await page.getByRole('button', { name: 'Try on everyone' }).click();
    await page.getByText('No access policy was evaluated.').waitFor();
    const { summary } = (await server.post('/v1/policies/vp/evaluate', { policy: draft })).json;
    expect(await page.locator('.figure').first().innerText()).toContain(String(summary.count));
    expect((await server.get('/v1/policies/vp/VP_TRADE_V7')).status).toBe(404);
    const changed = page.getByText('The draft has changed since.');
    await editDraft(page, { ...draft, inputs: draft.inputs.slice(0, 1) });
    await changed.waitFor();
    await editDraft(page, draft);
    await changed.waitFor({ state: 'detached' });
    await page.reload();
    expect(await page.getByLabel(/^Identities, up to 100/).inputValue()).toBe(subjects.join('\n'));
  });

  test('tries a draft with the access decisions also when their policies are still being listed', async () => {
    // A page that does not ask for them.
    const page = await open('#/live');
    const answer = await holdBack(page, /policies\/ap\?/);
    await goTo(page, '#/lab/draft');
    await editDraft(page, { ...TRADE_1, policy_id: 'VP_TRADE_V7' });
    await page.getByLabel(/^Identities, up to 100/).fill('tris:otc:905');
    await page.getByRole('button', { name: 'Try on these' }).click();
    await page.getByText('Comparing…').waitFor();
    answer();
    await page.getByText('gains AP_TRADE_V1').waitFor();
  });

  test('a draft that nobody has touched is not wrong', async () => {
    const page = await open('#/lab/draft');
    await page.getByText('2 things to correct.').waitFor();
    expect(await page.locator('.mantine-InputWrapper-error').count()).toBe(0);
    await page.getByLabel('Organization that owns it').fill('tris:otc');
    expect(await page.locator('.mantine-InputWrapper-error').count()).toBe(0);
    await page.getByRole('button', { name: 'Create the policy' }).click();
    await problemOf(page, 'Metric 1').first().waitFor();
    await page.getByRole('alert').filter({ hasText: 'validation_failed' }).waitFor();
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
  });

  test('what the service refuses of a draft stands at its field, and names that try HTML are text', async () => {
    const page = await open('#/lab/draft');
    const tries = '<img src=x onerror=alert(1)>';
    await editDraft(page, { ...TRADE_1, policy_id: 'VP_HTML_V1', tris_org: tries });
    await page.getByText('The draft follows the rules.').waitFor();
    await page.getByRole('button', { name: 'Create the policy' }).click();
    await problemOf(page, 'Organization that owns it')
      .getByText(/TRIS id/)
      .waitFor();
    expect(await page.getByLabel('Organization that owns it').getAttribute('aria-invalid')).toBe('true');
    await page.getByRole('alert').filter({ hasText: 'validation_failed' }).waitFor();
    await page.getByLabel('Organization that owns it').fill('tris:otc ');
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.getByLabel(/^Identities, up to 100/).fill('tris:otc:1');
    await page.getByRole('button', { name: 'Try on these' }).click();
    await problemOf(page, 'Organization that owns it')
      .getByText(/TRIS id/)
      .waitFor();
    await page.getByLabel('Organization that owns it').fill('tris:otc');
    await page.getByLabel(/^Identities, up to 100/).fill(tries.replaceAll(' ', ''));
    await page.getByRole('button', { name: 'Try on these' }).click();
    await page.getByRole('alert').filter({ hasText: 'subjects' }).waitFor();
    expect(await page.locator('img').count()).toBe(0);
  });

  test('creates a policy, and shows its warnings', async () => {
    const page = await open('#/lab/draft');
    await editDraft(page, { ...TRADE_1, policy_id: 'VP_SMALL_V1' });
    await page.getByRole('button', { name: 'Create the policy' }).click();
    await page.getByRole('heading', { level: 1, name: 'VP_SMALL_V1' }).waitFor();
    await page.getByText('the weights of the inputs add up to 0.08, less than 0.95; total_weight declares 1').waitFor();
    expect((await server.get('/v1/policies/vp/VP_SMALL_V1')).json.inputs).toEqual(TRADE_1.inputs);
    const promote = page.getByRole('button', { name: 'Promote…' });
    await page.getByRole('combobox', { name: /^For/ }).selectOption('platform');
    await page.getByText('The weights add up to 0.08; for the platform they must add up to 0.95 to 1.05.').waitFor();
    expect(await promote.isDisabled()).toBe(true);
    await page.getByRole('combobox', { name: /^For/ }).selectOption('organization');
    await promote.click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('This promotion is not based on a replay.').waitFor();
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
  });

  test('replays everyone, promotes after a confirmation that repeats what changes, and rolls back', async () => {
    const page = await open('#/lab/VP_TRADE_V2');
    await page.getByRole('button', { name: 'Replay over everyone' }).click();
    await page.waitForURL(/lab\/rpl_/);
    await page.getByText(/^the model’s own lens → VP_TRADE_V2/).waitFor();
    const id = page.url().split('/').at(-1);
    const { result } = (await server.get(`/v1/replays/${id}`)).json;
    const figures = await page.locator('.figures').innerText();
    for (const figure of [result.count, result.up, result.unchanged]) expect(figures).toContain(String(figure));
    const scores = page.getByRole('region', { name: 'Scores before and after' });
    const shown = await scores.locator('tbody tr').allInnerTexts();
    expect(shown.map((text) => text.split(/\s+/).slice(-2).map(Number))).toEqual(
      result.histogram.before.by_score.map((n: number, i: number) => [n, result.histogram.after.by_score[i]]),
    );
    const matrix = page.getByRole('region', { name: 'Changes of rating' });
    expect(await matrix.getByRole('row', { name: /^Poor/ }).innerText()).toContain(
      String(result.rating_moves.Poor.Fair),
    );
    const [access] = result.access;
    expect(await numbersOf(page, /^AP_TRADE_V1/)).toEqual(
      expect.arrayContaining([access.granted_before, access.granted_after, access.gained, access.lost].map(String)),
    );
    await page.getByText(/^(\d+ of those )?who gains?$/).click();
    await page.getByRole('region', { name: 'Access before and after' }).getByRole('link').first().waitFor();
    const [top] = result.top_movers.up;
    const row = page.getByRole('row', { name: new RegExp(`^${top.tris_id} `) });
    expect(await row.innerText()).toContain(top.reasons[0].metric);
    const href = await row.getByRole('link').getAttribute('href');
    await page.getByRole('button', { name: 'Promote…' }).click();
    const dialog = page.getByRole('dialog');
    const text = await dialog.innerText();
    for (const repeated of [
      'VP_TRADE_V2 becomes the lens of the platform, in place of the model’s own lens.',
      `${result.up} rise and ${result.down} fall`,
      `AP_TRADE_V1: ${access.gained} gain access, ${access.lost} lose it`,
    ]) {
      expect(text).toContain(repeated);
    }
    expect(await violations(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Promote for the platform' }).press('Enter');
    await dialog.getByText('Done. The lens of the platform is VP_TRADE_V2').waitFor();
    const promoted = (await server.get('/v1/policies/vp/VP_TRADE_V2')).json.history.at(-1);
    expect(promoted).toMatchObject({ status: 'promoted', scope: 'platform', replay_id: id });
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('link', { name: 'All policies' }).click();
    await page.getByText('The platform’s lens is VP_TRADE_V2.').waitFor();
    expect(await page.getByRole('row', { name: /^VP_TRADE / }).innerText()).toContain('V2: the platform');

    // The link of a mover compares both lenses.
    await page.goto(`${server.url}/console${href}`);
    const compared = page.getByRole('region', { name: 'Comparison of A and B' });
    const words = (await compared.getByRole('row', { name: /^Score/ }).innerText()).split(/\s+/);
    expect(words.slice(1, 3)).toEqual([tenths(top.before.score), tenths(top.after.score)]);

    await goTo(page, '#/lab/VP_TRADE_V2');
    await page.getByText('promoted for the platform after a replay').waitFor();
    await page.getByRole('button', { name: 'Roll back…' }).click();
    await dialog.getByRole('button', { name: 'Roll back for the platform' }).click();
    await dialog.getByText('Done. The lens of the platform is').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Promote…' }).waitFor();
    expect((await server.get('/v1/policies/vp/VP_TRADE_V2')).json.active_for).toEqual([]);
  });

  test('shows progress, rate and what is left of a replay, also while the service restarts, and cancels it', async () => {
    const page = await open('#/lab');
    const { json: replay } = await server.post('/v1/policies/vp/VP_TRADE_V2/replay', { scope: 'platform' });
    let done = 0;
    let isUnavailable = false;
    let isCancelled = false;
    await page.route(`**/v1/replays/${replay.replay_id}`, (route) => {
      if (isUnavailable) return route.abort();
      if (route.request().method() === 'DELETE') isCancelled = true;
      const status = isCancelled ? 'cancelled' : 'running';
      return route.fulfill({
        json: { ...replay, status, progress: { done: (done += 1000), total: 1_000_000 }, result: null },
      });
    });
    await goTo(page, `#/lab/${replay.replay_id}`);
    await page.getByText(/^[\d,]+ of 1,000,000 identities, [\d,]+\/s, [\d.]+ (s|min|h) left$/).waitFor();
    const share = Number(await page.getByRole('progressbar').getAttribute('aria-valuenow'));
    expect(share).toBeGreaterThan(0);
    expect(share).toBeLessThanOrEqual((100 * done) / 1_000_000);
    isUnavailable = true;
    await page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' }).waitFor({ timeout: 30_000 });
    isUnavailable = false;
    await page.getByRole('alert').waitFor({ state: 'detached' });
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Cancel the replay' }).click();
    await page.getByText('The replay was cancelled.').waitFor();
    await page.unroute(`**/v1/replays/${replay.replay_id}`);
    await page.getByRole('button', { name: 'Replay again' }).click();
    await page.waitForURL((url) => !url.href.endsWith(replay.replay_id));
    await page.getByText(/^the model’s own lens → VP_TRADE_V2/).waitFor();
  });

  test('waits for a promotion that is recorded before it is applied', async () => {
    const page = await open('#/lab/VP_TRADE_V2');
    const lens = (policy_id: string | null) => ({ policy_id, content_hash: 'a' });
    const job_id = '6f8b1b4e-1111-4222-8333-444455556666';
    const recorded = {
      policy_id: 'VP_TRADE_V2',
      scope: 'platform',
      active: lens('VP_TRADE_V2'),
      previous: lens(null),
      job_id,
    };
    let looks = 0;
    const answer = await holdBack(page, '**/promote', (route) => route.fulfill({ status: 202, json: recorded }));
    await page.route(`**/v1/promotions/${job_id}`, (route) =>
      route.fulfill({ json: { ...recorded, status: looks++ < 2 ? 'switching' : 'applied' } }),
    );
    await page.getByRole('button', { name: 'Promote…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Promote for the platform' }).click();
    // Under way, it can no longer be cancelled.
    await dialog.getByRole('button', { name: 'Cancel', disabled: true }).waitFor();
    await page.keyboard.press('Escape');
    answer();
    await dialog.getByText('Recorded. The read models are switching…').waitFor();
    await dialog.getByText('Done. The lens of the platform is VP_TRADE_V2').waitFor();
    expect(looks).toBe(3);
  });

  test('the live view is followed as a stream again after a promotion', async () => {
    const page = await open('#/live');
    let streams = 0;
    page.on('request', (request) => void (/changes\/stream/.test(request.url()) && streams++));
    const followed = page.getByText(/, followed live\.$/);
    await followed.waitFor();
    for (const action of ['promote', 'rollback']) {
      const before = streams;
      const { status } = await server.post(`/v1/policies/vp/VP_TRADE_V2/${action}`, { scope: 'platform' });
      // 202 if the read models take longer to switch.
      expect([200, 202]).toContain(status);
      await eventually(() => streams > before);
      await followed.waitFor();
    }
  });

  test('edits the rules of an access policy as a tree, and checks a subject while they are edited', async () => {
    const subject = 'tris:otc:905';
    const page = await open('#/lab/AP_TRADE_V1');
    await page.getByRole('button', { name: 'Draft a new version' }).click();
    const json = page.getByLabel('The access policy as JSON');
    const draft = async () => JSON.parse(await json.inputValue());
    await page.getByRole('heading', { level: 1, name: 'Draft of an access policy' }).waitFor();
    expect(await draft()).toEqual({ policy_id: 'AP_TRADE_V2', rules: RULES, ttl_seconds: 600, visibility: 'public' });

    // Tree → JSON.
    const kind = (where: string) => page.getByRole('combobox', { name: `Kind of ${where}`, exact: true });
    await kind('the rules').selectOption('at_least');
    await page.getByLabel('How many, at the rules').fill('2');
    await page.getByRole('button', { name: 'Add a rule to the rules' }).click();
    await page.getByRole('button', { name: 'Wrap /of/2' }).click();
    await kind('/of/2').selectOption('any');
    await page.getByLabel('Add a condition to /of/2/any/0').selectOption('metrics');
    await page.getByLabel('Least health, at /of/2/any/0/metrics/financial').fill('0.6');
    await page.getByLabel('Add a condition to /of/2/any/0').selectOption('verification');
    await page.getByLabel('Only these issuers, at /of/2/any/0/verification/0').fill('tris:bank tris:dao');
    await page.getByLabel('Score at least').first().fill('30');
    await page.getByRole('button', { name: 'Remove /of/2/any/0/disc_min' }).click();
    const rules = {
      at_least: 2,
      of: [
        { disc_min: 30 },
        RULES.all[1],
        {
          any: [
            { metrics: { financial: 0.6 }, verification: [{ status: 'zk-KYH', issuers: ['tris:bank', 'tris:dao'] }] },
          ],
        },
      ],
    };
    expect((await draft()).rules).toEqual(rules);

    // The check follows: every node has its outcome, and a smallest set of changes is named.
    await page.getByLabel('Subject to check the rules against').fill(subject);
    await page.getByText(`${subject} does not pass`).waitFor();
    const { json: checked } = await server.post('/v1/policies/ap/evaluate', { rules, subjects: [subject] });
    const [{ nodes, how_to_pass }] = checked.results;
    expect(await page.locator('.outcome.met').count()).toBe(nodes.filter((n: any) => n.outcome === 'met').length);
    const failed = page.locator('.conditions li.failed');
    await failed
      .filter({ has: page.getByLabel('Score at least') })
      .getByText(/^failed \(4\)/)
      .waitFor();
    expect(how_to_pass).toEqual([expect.objectContaining({ fact: 'net_tct' })]);
    await page.getByText(`net TCT of at least ${how_to_pass[0].required.toLocaleString('en-GB')}`).waitFor();
    expect(await page.getByText('suggested to change').count()).toBe(how_to_pass[0].pointers.length);
    await page.getByLabel('Score at least').first().fill('2');
    await page.getByText(`${subject} passes`).waitFor();

    // JSON → tree; what the service refuses stands at its node.
    await json.fill(JSON.stringify({ ...(await draft()), rules: { all: [{ disc_min: 200 }, { karma: 1 }] } }));
    await page
      .locator('.conditions li', { has: page.getByLabel('Score at least') })
      .getByText(/0 to 100/)
      .waitFor();
    await page.getByText('"karma" is not a rule').first().waitFor();
    await page.getByText('karma is not a condition that this editor knows.').waitFor();
    await page.getByRole('button', { name: 'Remove /all/1', exact: true }).click();
    await page.getByLabel('Score at least').fill('5');
    await page.getByLabel('Subject to check the rules against').fill('tris:nobody');
    await page.getByText('tris:nobody does not pass: nothing is known about it.').waitFor();

    await page.reload();
    expect((await draft()).rules).toEqual({ all: [{ disc_min: 5 }] });
    await page.getByLabel('Id, with its version').fill('ap');
    await page.getByRole('button', { name: 'Create the policy' }).click();
    await problemOf(page, 'Id, with its version')
      .getByText(/AP_<NAME>_V<n>/)
      .waitFor();
    await page.getByLabel('Id, with its version').fill('AP_TRADE_V2');
    await page.getByLabel('Lifetime of its tokens, seconds').fill('60');
    await page.getByRole('combobox', { name: 'Lens' }).selectOption('VP_TRADE_V1');
    await page.getByRole('combobox', { name: 'Who may read the rules' }).selectOption('private');
    await page.getByRole('button', { name: 'Create the policy' }).click();
    await page.getByText('AP_TRADE_V2 is created. Its rules are private.').waitFor();
    const created = (await server.get('/v1/policies/ap/AP_TRADE_V2')).json;
    const expected = { rules: { all: [{ disc_min: 5 }] }, ttl_seconds: 60, vp: 'VP_TRADE_V1', visibility: 'private' };
    expect(created).toMatchObject(expected);
    // Its rules are for its owner.
    await server.post('/v1/policies/ap/AP_TRADE_V2/retire');
    const stranger = await open('#/lab', null);
    await stranger
      .getByRole('row', { name: /^AP_TRADE_V2/ })
      .getByText('private')
      .waitFor();
    await stranger.getByRole('link', { name: 'AP_TRADE_V2' }).click();
    await stranger.getByText('The rules are private').waitFor();
    expect(await stranger.getByRole('button', { name: 'Draft a new version' }).count()).toBe(0);
  });

  test('a key without the scope, an unknown key and too many requests show the problem’s own text', async () => {
    const page = await open('#/lab/VP_TRADE_V2', NOTHING);
    await page
      .getByText('A replay needs the scope policies:write, which the key secret-nothing does not have.')
      .waitFor();
    await page.getByText('A promotion for the platform needs the scope ops').waitFor();
    for (const name of ['Replay over everyone', 'Promote…']) {
      expect(await page.getByRole('button', { name }).isDisabled()).toBe(true);
    }
    await page.getByRole('button', { name: 'API key: set' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget key' }).click();
    await page.getByText('A replay needs a key with the scope policies:write.').waitFor();
    await goTo(page, '#/lab/draft');
    await page.getByText('A dry run needs a key with the scope policies:write.').waitFor();
    await goTo(page, '#/lab/access');
    await page.getByText('A check of rules needs a key with the scope policies:write.').waitFor();
    expect(await page.title()).toBe('Draft of an access policy · Credence console');
    const unknown = await open('#/lab', 'secret-unknown');
    await unknown.getByRole('alert').filter({ hasText: 'Enter a key with “API key”' }).first().waitFor();
    const busy = await open('#/lab/draft');
    await editDraft(busy, TRADE_1);
    const problem = { code: 'rate_limited', detail: 'Too many requests with this key.' };
    await busy.route('**/evaluate', (route) =>
      route.fulfill({
        status: 429,
        contentType: 'application/problem+json',
        headers: { 'retry-after': '1' },
        json: problem,
      }),
    );
    await busy.getByRole('button', { name: 'Try on everyone' }).click();
    const alert = busy.getByRole('alert').filter({ hasText: problem.detail });
    await alert.waitFor();
    await busy.unroute('**/evaluate');
    await alert.getByRole('button', { name: 'Try again' }).click();
    await busy.getByRole('heading', { name: 'Largest rises' }).waitFor();
  });

  test.each(SCREENS)('is accessible and readable: %s, %i pixels wide', async (colorScheme, width) => {
    const { replay_id } = (await server.post('/v1/policies/vp/VP_TRADE_V2/replay', { scope: 'platform' })).json;
    const page = await open('#/lab', OPERATOR, { colorScheme, viewport: { width, height: 800 } });
    for (const [name, path] of [
      ['list', ''],
      ['policy', '/VP_TRADE_V2'],
      ['draft', '/draft'],
      ['access', '/access'],
      ['replay', `/${replay_id}`],
    ]) {
      await goTo(page, `#/lab${path}`);
      if (name === 'replay') await page.getByRole('heading', { name: 'Largest falls' }).waitFor();
      if (name === 'access') {
        await page.getByLabel('Subject to check the rules against').fill('tris:otc:905');
        await page.getByText('tris:otc:905 does not pass').waitFor();
      }
      await settled(page);
      expect(await violations(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      const clip = { x: 0, y: 0, width, height: 1300 };
      await picture(page, `${name}-${colorScheme}-${width}`, { clip, fullPage: true });
    }
  });
});
