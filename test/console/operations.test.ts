import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { parseRatings, toNdjson } from '../../examples/otc.mjs';
import { SCOPES } from '../../src/credentials/caller.js';
import { closeStores, openStores } from '../../src/stores/open.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { Server } from '../e2e/server.js';
import { runCommand } from '../servers/launch.js';
import { SCREENS, describeBrowser, launch, picture, settled, violations, watchedPages } from './browser.js';

/** The operations view of the built console in a browser, on the ratings of examples/: every action once. */

const OPERATOR = 'secret-operator';
const RELAYER = 'secret-relayer';
const KEYS = [
  { id: 'operator', secret: OPERATOR, scopes: SCOPES },
  { id: 'relayer', secret: RELAYER, scopes: ['relay:write'] },
];

describeBrowser('the operations view', () => {
  let server: Server;
  let browser: Browser;
  let folder: string;
  const newPage = watchedPages();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'credence-operations-'));
    const data = join(folder, 'data');
    const ratings = parseRatings(readFileSync('examples/bitcoin-otc-excerpt.csv', 'utf8'));
    expect((await runCommand(['import', '-'], { CREDENCE_DATA: data }, toNdjson(ratings))).code).toBe(0);
    const stores = await openStores(data, Date.now);
    await plantAction(stores.eventStore, { tris_id: 'tris:otc:1', metric: 7 });
    await closeStores(stores);
    const keys = KEYS.map(({ secret, ...key }) => ({
      ...key,
      sha256: createHash('sha256').update(secret).digest('hex'),
    }));
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(keys));
    const env = {
      CREDENCE_API_KEYS: join(folder, 'keys.json'),
      CREDENCE_RATE_LIMIT: '0',
    };
    [server, browser] = await Promise.all([Server.start({ data, env }), launch()]);
    server.key = OPERATOR;
  });
  afterAll(async () => {
    await browser?.close();
    await server?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(key: string | null = OPERATOR, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await newPage(browser, server.url, options);
    await page.goto(`${server.url}/console`);
    if (key !== null) await page.evaluate(`sessionStorage.setItem('credence-key', ${JSON.stringify(key)})`);
    await page.goto(`${server.url}/console#/operations`);
    if (key !== null) await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Operations' }).waitFor();
    return page;
  }
  const sections = async (page: Page) => {
    await page.getByText(/^Key /).waitFor();
    await settled(page);
    return page.getByRole('heading', { level: 2 }).allTextContents();
  };
  const status = async () => (await server.get('/v1/ops/status')).json;
  const servingIds = async () =>
    (await status()).generations.filter(({ serves }: any) => serves.length > 0).map(({ id }: any) => id);
  const generationRow = (page: Page, id: string) =>
    page.getByRole('region', { name: 'List of generations' }).getByRole('row').filter({ hasText: id });
  /** Confirms the open dialog and waits until it is closed. */
  const confirm = async (page: Page, verb: string) => {
    await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };

  test('shows what the key permits, and says what it does not', async () => {
    const anonymous = await open(null);
    await anonymous.getByText('The state of the service needs a key with the scope ops').waitFor();
    expect(await sections(await open(OPERATOR))).toEqual(['Log', 'Generations of read models', 'Jobs', 'Dead letters']);
    const relayer = await open(RELAYER);
    await relayer.getByText('The state of the service needs the scope ops').waitFor();
    expect(await sections(relayer)).toEqual([]);
  });

  test('a view is rebuilt, swapped to, verified, rolled back and dropped, with the keyboard to begin with', async () => {
    const [first] = await servingIds();
    const page = await open();
    await settled(page);
    await page.getByRole('button', { name: 'Rebuild…' }).focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Views').focus();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.keyboard.press('Enter');
    await confirm(page, 'Start the rebuild');
    await page.getByText(/ has [\d,]+ events, applied in /).waitFor();
    const built = (await status()).generations.find(({ id }: any) => id !== first).id;

    await generationRow(page, built)
      .getByRole('button', { name: `Swap to ${built}` })
      .click();
    await confirm(page, `Serve ${built}`);
    await eventually(async () => (await servingIds()).includes(built));
    await generationRow(page, built).getByText('all its views').waitFor();

    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('Identical', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Roll back…' }).click();
    await page.getByRole('dialog').getByText(`${first}: all views`).waitFor();
    await confirm(page, 'Roll back');
    await eventually(async () => (await servingIds()).includes(first));

    const drop = page.getByRole('button', { name: `Drop ${built}` });
    await drop.click();
    await page.getByRole('dialog').getByText('can then not be rolled back').waitFor();
    await confirm(page, `Delete ${built}`);
    await drop.waitFor({ state: 'detached' });
    expect((await status()).generations.map(({ id }: any) => id)).toEqual([first]);
    await page.getByRole('button', { name: 'Roll back…' }).waitFor({ state: 'detached' });
  });

  test('a job in progress is drawn with its rate and cancelled; a refusal and a failure say why', async () => {
    const page = await open(OPERATOR, { viewport: { width: 1280, height: 960 } });
    // A job that takes long, as a service with a long log tells it: the log of this one is folded in an instant.
    const job = {
      job_id: 'rbd_held',
      kind: 'rebuild',
      status: 'running',
      progress: { done: 0, total: 6_000_000 },
      problem: null,
      started_at: new Date().toISOString(),
      finished_at: null as string | null,
    };
    const real = await status();
    const [serving] = real.generations;
    await page.route('**/v1/jobs', (route) => {
      if (job.status === 'running') job.progress.done = Math.min(5_900_000, job.progress.done + 240_000);
      return route.fulfill({ json: { jobs: [job] } });
    });
    await page.route('**/v1/ops/status', (route) => {
      const applied = job.progress.done;
      const building = { ...serving, id: 'g7', status: 'building', serves: [], applied_events: applied };
      const events = 6_000_000;
      const generations = [
        { ...serving, applied_events: events, position: `${real.log_id}.${events}` },
        { ...building, lag_events: events - applied, lag_seconds: 90_000, position: `${real.log_id}.${applied}` },
      ];
      return route.fulfill({ json: { ...real, head: `${real.log_id}.${events}`, events, generations } });
    });
    await page.route('**/v1/jobs/rbd_held', (route) => {
      job.status = 'cancelled';
      job.finished_at = new Date().toISOString();
      return route.fulfill({ json: { ...job, result: null } });
    });
    await page.reload();
    const row = page.getByTestId('job-rebuild');
    await row.getByText(/of 6,000,000, [\d,]+\/s, .* left/).waitFor();
    await generationRow(page, 'g7')
      .getByText(/of 6,000,000, [\d,]+\/s/)
      .waitFor();
    expect(await violations(page)).toEqual([]);
    await row.getByRole('button', { name: 'Cancel rbd_held' }).click();
    await row.getByText('cancelled').waitFor();
    await page.unrouteAll({ behavior: 'wait' });

    await server.post('/v1/ops/swap', { generation: 'g99' });
    await page
      .getByTestId('job-swap')
      .filter({ hasText: 'failed' })
      .getByRole('button', { name: /^Result of/ })
      .click();
    await page.getByText(/There is no generation g99/).waitFor();
    // As with a zoom of 400 %: what has happened is still told in whole.
    await page.setViewportSize({ width: 320, height: 256 });
    const label = page.getByTestId('job-swap').getByText('failed', { exact: true });
    expect(await label.evaluate((element) => element.scrollWidth - element.clientWidth)).toBe(0);
  });

  if (process.env['SCREENSHOTS'] !== undefined) {
    test('a rebuild of some 300,000 events half way, for docs/console.md', async () => {
      const actions = Array.from({ length: 150_000 }, (_, n) => ({
        tris_id: `tris:member-${n % 50_000}`,
        category: 'social',
        action_type: 'vouch',
        criticality: 'low',
        platform_id: 'market',
        external_id: `${n}`,
      }));
      const lines = actions.map((action) => JSON.stringify(action)).join('\n');
      expect((await runCommand(['import', '-'], { CREDENCE_DATA: server.data }, lines)).code).toBe(0);
      const hasCaughtUp = async () => (await status()).generations.every(({ lag_events }: any) => lag_events === 0);
      while (!(await hasCaughtUp())) await sleep(1_000);
      const page = await open(OPERATOR, { viewport: { width: 1280, height: 960 } });
      const { job_id } = (await server.post('/v1/ops/rebuild', {})).json;
      const isHalfDone = async () => {
        const { done, total } = (await server.get(`/v1/jobs/${job_id}`)).json.progress;
        return total > 0 && done >= 0.4 * total;
      };
      while (!(await isHalfDone())) await sleep(50);
      // The page has asked for it twice, which gives the rate.
      await page
        .getByTestId('job-rebuild')
        .first()
        .getByText(/\/s, .* left/)
        .waitFor();
      await picture(page, 'operations-light-1280');
      await server.request('DELETE', `/v1/jobs/${job_id}`);
    }, 900_000);
  }

  test('a dead letter is acknowledged with a reason', async () => {
    const page = await open();
    await page.getByRole('button', { name: /^Acknowledge / }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason, as a code').fill('known_defect');
    expect(await violations(page)).toEqual([]);
    await confirm(page, 'Acknowledge for good');
    await page.getByText('Every event can be decoded, or is acknowledged.').waitFor();
    const { json } = await server.get('/v1/dead-letters?state=acknowledged');
    expect(json.dead_letters).toMatchObject([{ acknowledged: { by: 'key:operator', reason_code: 'known_defect' } }]);
  });

  test('data that cannot be loaded again is shown with the reason', async () => {
    const page = await open();
    const generations = page.getByRole('region', { name: 'List of generations' });
    await generations.waitFor();
    const problem = { code: 'unauthorized', detail: 'The key in the X-API-Key header is unknown.' };
    await page.route('**/v1/ops/status', (route) =>
      route.fulfill({ status: 401, contentType: 'application/problem+json', json: problem }),
    );
    await page.getByRole('alert').filter({ hasText: problem.detail }).waitFor();
    expect(await generations.isVisible()).toBe(true);
  });

  test('a service that is unavailable is told, and followed again when it is back', async () => {
    const page = await open();
    await settled(page);
    let isUnavailable = true;
    await page.route('**/v1/ops/status', (route) => (isUnavailable ? route.abort() : route.fallback()));
    const failure = page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' });
    await failure.waitFor();
    isUnavailable = false;
    await failure.waitFor({ state: 'detached' });
    await page.getByRole('region', { name: 'List of generations' }).waitFor();
  });

  test.each(SCREENS)('is accessible and readable: %s, %i pixels wide', async (colorScheme, width) => {
    const page = await open(OPERATOR, { colorScheme, viewport: { width, height: 800 } });
    await page.getByRole('region', { name: 'List of generations' }).waitFor();
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    await page.getByRole('button', { name: 'Rebuild…' }).click();
    expect(await violations(page)).toEqual([]);
  });
});
