import { mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fastify } from 'fastify';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { GLOSSARY } from '../../console/src/glossary.js';
import { parseRatings, toAction, toNdjson } from '../../examples/otc.mjs';
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

/** The console of the built service in a browser, on the ratings of examples/. */

/** Earned 1,660 TCT, then lost its standing within a month of 2014. */
const FALLEN = 'tris:otc:905';
const BEFORE_FALL = '2014-03-01T00:00:00.000Z';
const isOther = ({ target }: { target: string }) => `tris:otc:${target}` !== FALLEN;

describeBrowser('the console', () => {
  let server: Server;
  let browser: Browser;
  const newPage = watchedPages();

  beforeAll(async () => {
    const data = mkdtempSync(join(tmpdir(), 'credence-console-'));
    const ratings = parseRatings(readFileSync('examples/bitcoin-otc-excerpt.csv', 'utf8'));
    const { code } = await runCommand(['import', '-'], { CREDENCE_DATA: data }, toNdjson(ratings.filter(isOther)));
    expect(code).toBe(0);
    [server, browser] = await Promise.all([Server.start({ data }), launch()]);
    // One after the other: an import does not keep the order of the file.
    for (const rating of ratings) if (!isOther(rating)) await server.relay(toAction(rating));
  });
  afterAll(async () => {
    await browser?.close();
    await server?.end();
  });

  async function open(hash = '', options: BrowserContextOptions = {}): Promise<Page> {
    const page = await newPage(browser, server.url, options);
    await page.goto(`${server.url}/console${hash}`);
    return page;
  }
  const scoreOf = (page: Page) => page.getByTestId('score').textContent();
  const parametersOf = (page: Page) => new URLSearchParams(page.url().split('?')[1]);
  const chartOf = (page: Page) => page.getByRole('slider', { name: /^Score over time/ });

  test('the address of the service leads to it, and a search to an identity, by TRIS id or by wallet', async () => {
    const page = await open();
    await page.goto(`${server.url}/`);
    expect(page.url()).toBe(`${server.url}/console`);
    const search = page.getByRole('combobox', { name: 'Find an identity' });
    await search.fill(` ${FALLEN} `);
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: FALLEN }).waitFor();
    expect(await page.title()).toBe(`${FALLEN} · Credence console`);
    await search.fill('0x52908400098527886E0F7030069857D2E4169EE7');
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'tris:0x52908400098527886e0f7030069857d2e4169ee7' }).waitFor();
    await page.getByRole('alert').filter({ hasText: 'identity_not_found' }).first().waitFor();
  });

  const withKey = async (page: Page) => {
    await page.evaluate(`sessionStorage.setItem('credence-key', ${JSON.stringify(server.key)})`);
    await page.reload();
  };

  test('the beginning of an id, also after its namespace, finds identities in a list for the keyboard', async () => {
    const page = await open();
    await withKey(page);
    const search = page.getByRole('combobox', { name: 'Find an identity' });
    const { json } = await server.get('/v1/identities?prefix=9&limit=8');
    const ids = json.identities.map(({ tris_id }: { tris_id: string }) => tris_id);
    expect(ids.length).toBeGreaterThan(1);
    await search.pressSequentially('9');
    const options = page.getByRole('listbox', { name: 'Identities found' }).getByRole('option');
    await options.nth(1).waitFor();
    expect(await search.getAttribute('aria-expanded')).toBe('true');
    expect((await options.allInnerTexts()).map((text) => text.split('\n')[0])).toEqual(ids);
    expect(await violations(page)).toEqual([]);
    const activeOne = () => search.getAttribute('aria-activedescendant');
    expect(await activeOne()).toBeNull();
    await search.press('ArrowDown');
    await search.press('ArrowDown');
    expect(await page.locator('[aria-selected="true"]').innerText()).toContain(ids[1]);
    expect(await activeOne()).toBe(await options.nth(1).getAttribute('id'));
    await search.press('Escape');
    expect(await search.getAttribute('aria-expanded')).toBe('false');
    await search.press('ArrowDown');
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: ids[0], exact: true }).waitFor();
    // What is typed need not be chosen from the list.
    await search.fill('otc:905');
    await options.first().waitFor();
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: FALLEN, exact: true }).waitFor();
    await search.fill('905');
    await options.first().click();
    expect(await search.inputValue()).toBe('');
  });

  test('begins with what there is and what happens, and says what needs a key', async () => {
    const page = await open();
    await settled(page);
    const main = page.getByRole('main');
    const text = await main.innerText();
    expect(text).toContain('needs a key with ops');
    expect(text).toContain('The traffic of this process needs a key with the scope ops.');
    expect(text).toContain('Read models');
    const asked = page.waitForResponse('**/v1/me');
    await page.route('**/v1/**', (route) =>
      route.fulfill({ status: 503, json: { code: 'store_unavailable', detail: '' } }),
    );
    await withKey(page);
    await asked;
    // Nobody knows yet what the key may read.
    await main.getByText('Identities').waitFor();
    expect(await main.innerText()).not.toContain('needs a key');
    await page.unrouteAll({ behavior: 'wait' });
    await page.reload();
    await settled(page);
    const { json } = await server.get('/v1/disc/overview');
    await main.getByText(json.actions.toLocaleString('en'), { exact: true }).waitFor();
    const shown = await main.innerText();
    expect(shown).not.toContain('needs a key');
    expect(shown).toContain('kept in memory by this process');
    const relayed = json.minutes.reduce((sum: number, minute: { relayed: number }) => sum + minute.relayed, 0);
    expect(relayed).toBeGreaterThan(0);
    expect(await main.getByRole('img', { name: /^Relays/ }).getAttribute('aria-label')).toContain(
      `${relayed}, at most`,
    );
    const [change] = json.rating_changes;
    const row = main.getByRole('row').filter({ has: page.getByRole('link', { name: change.tris_id, exact: true }) });
    expect(await row.innerText()).toMatch(new RegExp(`${change.from}\\s+→\\s+${change.to}`));
    expect(await violations(page)).toEqual([]);
    await row.getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: change.tris_id, exact: true }).waitFor();
  });

  test('the line shows the reliability with its interval and the TCT, too, and ends now', async () => {
    const page = await open(`#/identity/${FALLEN}`);
    await settled(page);
    await page.getByRole('button', { name: 'Net TCT' }).click();
    await page.waitForURL(/series=tct/);
    await page.getByRole('slider', { name: /^Net TCT over time/ }).focus();
    await page.keyboard.press('End');
    await page.locator('.tip').filter({ hasText: '7 Jan 2016' }).waitFor();
    const as_of = BEFORE_FALL;
    await page.goto(`${server.url}/console#/identity/${FALLEN}?series=reliability&as_of=${as_of}`);
    const { json } = await server.get(`/v1/disc/score/${FALLEN}?as_of=${as_of}`);
    const [low, high] = json.reliability_interval.map((one: number) => one.toFixed(2));
    await page
      .getByRole('img', { name: `Reliability over time; now ${json.reliability.toFixed(2)}, ${low} to ${high}` })
      .waitFor();
  });

  test('an organization has a tab with its rank, vetting, platforms and policies', async () => {
    await server.post('/v1/organizations', { tris_org: 'tris:shop', platform_ids: ['shop-web'] });
    await server.post('/v1/organizations/tris:shop/vet');
    const page = await open('#/identity/tris:otc:1');
    await settled(page);
    expect(await page.getByRole('link', { name: 'Organization', exact: true }).count()).toBe(0);
    await page.goto(`${server.url}/console#/identity/tris:shop`);
    await page.getByRole('link', { name: 'Organization', exact: true }).click();
    await settled(page);
    const main = page.getByRole('main');
    expect(await main.innerText()).toContain('The list needs a key with the scope ops.');
    expect(await main.innerText()).toContain('Unranked, by 0 TCT in total');
    await withKey(page);
    await main.getByText('shop-web').waitFor();
    expect(await main.innerText()).toContain('It owns no policy.');
    expect(await violations(page)).toEqual([]);
  });

  test('shows a score, its events and what it consists of as the service answers them', async () => {
    const { json: score } = await server.get(`/v1/disc/score/${FALLEN}`);
    const { json: history } = await server.get(`/v1/disc/score/${FALLEN}/history?limit=1000`);
    const { json: credonations } = await server.get(`/api/tris-validations/${FALLEN}?limit=1000`);
    const page = await open(`#/identity/${FALLEN}`);
    await settled(page);
    expect(await scoreOf(page)).toBe(tenths(score.score));
    const tab = async (name: string) => {
      await page
        .getByRole('navigation', { name: 'Parts of this page' })
        .getByRole('link', { name, exact: true })
        .click();
      await settled(page);
      return page.getByRole('main').innerText();
    };
    const text = [await page.getByRole('main').innerText(), await tab('Endorsements'), await tab('Why')]
      .join()
      .replaceAll(/\s+/g, ' ');
    for (const shown of [
      `of 100, ${score.score_rating}`,
      'No recent evidence',
      'social_trade_rating earned 10 TCT; the score stayed at 4.0.',
      '1,660 earned, 8,600 forfeited',
      'with a probability of 90 %',
      `${history.entries.length} events.`,
      `${credonations.validations.length}, of all times, by endorser`,
      'TCT are missing for Poor',
      score.position,
    ]) {
      expect(text).toContain(shown);
    }
    expect(await page.getByRole('row', { name: /^social_trade_rating/ }).innerText()).toContain('1,660');
    expect(await page.getByRole('row', { name: /^compliance_trade_flags/ }).innerText()).toContain('8,600');
    await tab('Events');
    const latest = page.locator('.cards tbody tr').first();
    expect(await latest.locator('time').getAttribute('title')).toBe(`${history.entries.at(-1).occurred_at} (UTC)`);
    expect(await latest.innerText()).toContain('7 Jan 2016, 04:17:53');
    await page.getByRole('checkbox', { name: 'Only forfeits' }).check();
    const flags = history.entries.filter(({ tct_delta }: { tct_delta: number }) => tct_delta < 0);
    expect(await page.locator('.cards tbody tr').count()).toBe(flags.length);
  });

  test('moves from event to event by keyboard and by pointer, and keeps the selected one in the address', async () => {
    const { json } = await server.get(`/v1/disc/score/${FALLEN}/history?limit=1000`);
    const [first, second] = json.entries;
    const page = await open(`#/identity/${FALLEN}`);
    await settled(page);
    const chart = chartOf(page);
    await chart.focus();
    await page.keyboard.press('Home');
    expect(await chart.getAttribute('aria-valuetext')).toContain(
      `social_trade_rating, +${first.tct_delta} TCT, score ${tenths(first.score)}`,
    );
    await page.keyboard.press('ArrowRight');
    expect(await page.locator('.tip').innerText()).toContain(`→ ${tenths(second.score)} ${second.score_rating}`);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**event=${second.event_id}`);
    const details = page.getByRole('region', { name: 'social_trade_rating' });
    expect(await details.innerText()).toContain(second.position);
    await page.reload();
    await details.waitFor();
    await settled(page);

    await page.getByRole('combobox', { name: 'Axis' }).selectOption('number');
    await page.waitForURL(/axis=number/);
    await page.getByRole('combobox', { name: 'Axis' }).selectOption('time');
    await chart.scrollIntoViewIfNeeded();
    const { x, y, width } = (await chart.boundingBox())!;
    await page.mouse.move(x + width - 60, y + 150);
    await page.locator('.tip').filter({ hasText: '7 Jan 2016' }).waitFor();
    await page.mouse.click(x + width - 60, y + 150);
    await page.waitForURL((url) => !url.href.includes(second.event_id));
    const clicked = json.entries.find(({ event_id }: any) => event_id === parametersOf(page).get('event'));
    expect(clicked.occurred_at).toMatch(/^2016-01-07/);
  });

  test('travels in time and through lenses, all in the address, and compares two points', async () => {
    const past = (await server.get(`/v1/disc/score/${FALLEN}?as_of=${BEFORE_FALL}`)).json;
    const page = await open(`#/identity/${FALLEN}?as_of=${BEFORE_FALL}`);
    await settled(page);
    expect(await scoreOf(page)).toBe(tenths(past.score));
    const exact = await page.getByRole('link', { name: 'Link to exactly these numbers' }).getAttribute('href');
    expect(Object.fromEntries(new URLSearchParams(exact!.split('?')[1]))).toEqual({
      as_of: BEFORE_FALL,
      as_of_position: past.position,
      vp: 'model',
      model: past.model.id,
    });

    await page.getByRole('link', { name: 'Time travel' }).click();
    await page.waitForURL(/tab=time/);
    await page.getByRole('button', { name: /^Compare/ }).click();
    const table = page.getByRole('region', { name: 'Comparison of A and B' });
    await table.waitFor();
    const present = (await server.get(`/v1/disc/score/${FALLEN}`)).json;
    expect((await table.getByRole('row', { name: /^Score/ }).innerText()).split(/\s+/)).toEqual([
      'Score',
      tenths(past.score),
      tenths(present.score),
      `−${tenths(past.score - present.score)}`,
    ]);
    const other = page.getByRole('group', { name: 'B: when and under which lens' });
    await other.getByRole('combobox', { name: 'Model' }).selectOption('disc-1');
    await page.waitForURL(/b_model=disc-1/);
    const { json: byOther } = await server.get(`/v1/disc/score/${FALLEN}?model=disc-1`);
    await table.getByRole('cell', { name: String(byOther.reliability), exact: true }).waitFor();
    await page.getByRole('button', { name: 'End the comparison' }).click();
    await table.waitFor({ state: 'detached' });
    expect([...parametersOf(page).keys()]).toEqual(['as_of', 'tab']);

    // The slider: at its left end only the first event counts, at its right end it means now.
    const slider = page.getByRole('slider', { name: 'As of (occurred by), slider' });
    await slider.focus();
    await page.keyboard.press('Home');
    const first = (await server.get(`/v1/disc/score/${FALLEN}/history?limit=1`)).json.entries[0];
    await page.getByTestId('score').getByText(tenths(first.score), { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    await page.getByText('1 event.', { exact: true }).waitFor();
    await page.goBack();
    await slider.focus();
    await page.keyboard.press('End');
    await page.getByTestId('score').getByText(tenths(present.score), { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    await page.getByText('57 events.').waitFor();
    expect(parametersOf(page).has('as_of')).toBe(false);
  });

  test('shows the problem’s own text, and names that try HTML as text', async () => {
    const page = await open('#/identity/<img src=x onerror=alert(1)>');
    await page.getByRole('heading', { level: 1, name: '<img src=x onerror=alert(1)>' }).waitFor();
    await page.getByRole('alert').filter({ hasText: 'tris_id must be a TRIS id' }).first().waitFor();
    expect(await page.locator('img').count()).toBe(0);
    // What is wrong with a request stays wrong.
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
    await page.goto(`${server.url}/console#/identity/${FALLEN}?as_of=2001-01-01T00:00:00Z`);
    await page.getByRole('alert').filter({ hasText: 'identity_not_found' }).first().waitFor();
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0);
    expect(await violations(page)).toEqual([]);
  });

  test('the score is on the first screen of a phone, and the overview on one of a computer', async () => {
    const phone = await open(`#/identity/${FALLEN}`, { viewport: { width: 360, height: 640 } });
    await settled(phone);
    const gauge = (await phone.getByRole('img', { name: /^[\d.]+ of 100, BAD$/ }).boundingBox())!;
    expect(gauge.y + gauge.height).toBeLessThan(640);
    const computer = await open(`#/identity/${FALLEN}`, { viewport: { width: 1280, height: 400 } });
    await settled(computer);
    expect(await computer.evaluate('document.documentElement.scrollHeight')).toBeLessThanOrEqual(900);
  });

  test('a false time in the address is told, and can be changed', async () => {
    for (const parameter of ['as_of', 'known_at']) {
      const page = await open(`#/identity/${FALLEN}?${parameter}=yesterday`);
      await page.getByRole('alert').filter({ hasText: parameter }).first().waitFor();
      await page.getByRole('button', { name: 'Now', exact: true }).click();
      await page.getByTestId('score').waitFor();
    }
  });

  test('a view that fails says so, and the others still work', async () => {
    // Not watched: its error is on purpose.
    const page = await browser.newPage();
    await page.route('**/explain*', (route) => route.fulfill({ json: { contributions: 7 } }));
    await page.goto(`${server.url}/console#/identity/${FALLEN}?tab=why`);
    await page.getByRole('alert').filter({ hasText: 'This view cannot be shown' }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole('link', { name: 'Policies', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Policy lab' }).waitFor();
    await page.close();
  });

  test('one event is not several, and the mark of the selected one covers no letter', async () => {
    const relayed = await server.relay({ tris_id: 'tris:one' });
    const { json } = await server.getAfter(relayed, '/v1/disc/score/tris:one/history');
    const page = await open(`#/identity/tris:one?tab=events&event=${json.entries[0].event_id}`);
    await page.getByText('1 event.', { exact: true }).waitFor();
    const cell = page.locator('tr.selected > :first-child');
    expect(
      await cell.evaluate((it: any) => parseFloat(it.ownerDocument.defaultView.getComputedStyle(it).paddingLeft)),
    ).toBeGreaterThan(3);
  });

  test('words say what they mean on hover and on focus, until Escape', async () => {
    const page = await open(`#/identity/${FALLEN}`);
    const word = page.locator('abbr', { hasText: /^TCT$/ });
    const meaning = page.getByRole('tooltip');
    await word.hover();
    expect(await meaning.innerText()).toBe(GLOSSARY.TCT);
    await page.mouse.move(0, 0);
    await meaning.waitFor({ state: 'detached' });
    await word.focus();
    await meaning.waitFor();
    expect(await word.getAttribute('aria-describedby')).toBe(await meaning.getAttribute('id'));
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await meaning.waitFor({ state: 'detached' });
  });

  test('tries again when the service says so, and on request when it cannot be reached', async () => {
    let refused = 0;
    let isUnavailable = true;
    const page = await open();
    await page.route('**/v1/disc/score/*', (route) => {
      if (refused++ > 0) return route.fallback();
      const problem = { code: 'rate_limited', detail: 'Too many requests from this address.' };
      const headers = { 'retry-after': '1' };
      return route.fulfill({ status: 429, contentType: 'application/problem+json', headers, json: problem });
    });
    await page.route('**/explain', (route) => (isUnavailable ? route.abort() : route.fallback()));
    await page.goto(`${server.url}/console#/identity/${FALLEN}?tab=why`);
    await page.getByText('Loading the score… Too many requests from this address. Trying again.').waitFor();
    await page.getByTestId('score').waitFor();
    const failure = page.getByRole('alert').filter({ hasText: 'The service cannot be reached.' });
    await failure.waitFor();
    isUnavailable = false;
    await failure.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'Contributions' }).waitFor();
  });

  test('asks for a key, keeps it in the tab, and shows what it permits', async () => {
    const wallet = '0x52908400098527886E0F7030069857D2E4169EE7';
    const linked = await server.post('/api/link-account', { wallet, tris_id: 'tris:otc:1' });
    expect(linked.status).toBe(200);
    await server.post('/v1/policies/ap', { policy_id: 'AP_TRADERS_V1', rules: { disc_min: 99 } });
    const asked = { policy_id: 'AP_TRADERS_V1', subject_tris: 'tris:otc:1' };
    const checked = await server.post('/v1/policies/ap/check', asked);
    expect(checked.json.granted).toBe(false);
    await server.getAfter(checked, '/v1/access/decisions?subject=tris:otc:1');
    const page = await open('#/identity/tris:otc:1?tab=access');
    await settled(page);
    const wallets = page.getByRole('heading', { name: 'Wallets', exact: true });
    expect(await wallets.count()).toBe(0);
    await page.getByRole('button', { name: 'API key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Key').fill('wrong');
    await page.keyboard.press('Enter');
    await dialog.getByText('The key in the X-API-Key header is unknown.').waitFor();
    expect(await violations(page)).toEqual([]);
    await dialog.getByLabel('Key').fill(server.key);
    await page.keyboard.press('Enter');
    await wallets.waitFor();
    await page.getByRole('rowheader', { name: wallet }).waitFor();
    const decisions = page.getByRole('heading', { name: 'Access decisions' });
    await decisions.waitFor();
    const check = page.getByRole('row', { name: /AP_TRADERS_V1 denied/ });
    expect(await check.innerText()).toContain('disc_min failed');
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate('JSON.stringify([localStorage, document.cookie])')).not.toContain(server.key);
    await page.getByRole('button', { name: 'API key: set' }).click();
    await dialog.getByRole('button', { name: 'Forget key' }).click();
    await wallets.waitFor({ state: 'detached' });
    expect(await decisions.count()).toBe(0);
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  test('follows the feed of changes, filtered, and keeps only the latest of many', async () => {
    const page = await open('#/live');
    await page.getByRole('alert').filter({ hasText: 'unauthorized' }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.evaluate(`sessionStorage.setItem('credence-key', ${JSON.stringify(server.key)})`);
    await page.reload();
    const rows = page.getByRole('region', { name: 'Changes' }).locator('tbody tr');
    await rows.first().waitFor();
    const before = await rows.count();
    expect(before).toBeGreaterThan(50);
    expect(await violations(page)).toEqual([]);
    const relayed = await server.relay({ tris_id: 'tris:newcomer' });
    expect(relayed.status).toBe(202);
    await rows.first().filter({ hasText: 'tris:newcomer' }).waitFor();
    expect(await rows.count()).toBe(before + 1);
    const { score } = (await server.getAfter(relayed, '/v1/disc/score/tris:newcomer')).json;
    expect(await rows.first().innerText()).toContain(tenths(score));
    // By the stream; while it is unavailable the feed is polled, and then followed again.
    await page.getByText(/, followed live\.$/).waitFor();
    let polls = 0;
    page.on('request', (request) => void (/disc\/changes\?/.test(request.url()) && polls++));
    expect((await server.relay({ tris_id: 'tris:newcomer-2' })).status).toBe(202);
    await rows.first().filter({ hasText: 'tris:newcomer-2' }).waitFor();
    expect(polls).toBe(0);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText(/, paused\.$/).waitFor();
    await page.route('**/changes/stream*', (route) => route.abort());
    await page.getByRole('button', { name: 'Continue' }).click();
    expect((await server.relay({ tris_id: 'tris:newcomer-3' })).status).toBe(202);
    await rows.first().filter({ hasText: 'tris:newcomer-3' }).waitFor();
    expect(polls).toBeGreaterThan(0);
    await page.getByLabel('TRIS id contains').fill('newcomer');
    expect(await rows.count()).toBe(3);
    await page.getByLabel('TRIS id contains').fill('newcomer-2');
    expect(await rows.count()).toBe(1);
    await page.getByLabel('Score below').fill('2');
    await page.getByText('0 shown').waitFor();
    await page.getByLabel('Score below').fill('');
    await page.getByRole('link', { name: 'tris:newcomer-2' }).click();
    await page.getByRole('heading', { level: 1, name: 'tris:newcomer-2' }).waitFor();

    const many = Array.from({ length: 999 }, (_, i) => ({
      tris_id: `tris:${i}`,
      score: 7,
      total_tct: 0,
      position: `${i}`,
    }));
    // Pages end before their limit, and there is no stream from their cursor: the feed is asked for until it has no more.
    let left = 2;
    await page.route('**/v1/disc/changes*', (route) =>
      route.fulfill({ json: { changes: left-- > 0 ? many : [], next_cursor: 'c' } }),
    );
    await page.getByRole('link', { name: 'Live' }).click();
    await page.getByText(/^1,998 changes read/).waitFor();
    expect(await rows.count()).toBe(200);
  });

  test('loads 50,000 events page by page and shows them', async () => {
    const page = await open();
    const { json } = await server.get(`/v1/disc/score/${FALLEN}/history?limit=1`);
    const [example] = json.entries;
    const pageOf = (number: number) =>
      Array.from({ length: 1000 }, (_, i) => {
        const serial = number * 1000 + i;
        const occurred_at = new Date(Date.UTC(2016, 0, 1) + serial * 3_600_000).toISOString();
        return { ...example, event_id: `event-${serial}`, occurred_at, score: 7 + (serial % 500) / 10 };
      });
    await page.route('**/history?limit=1000*', (route) => {
      const number = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
      return route.fulfill({ json: { entries: pageOf(number), next_cursor: number < 49 ? String(number + 1) : null } });
    });
    await page.goto(`${server.url}/console#/identity/${FALLEN}`);
    await page.getByText('50,000 events.').waitFor();
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    await page.getByText('Page 1 of 2,000').waitFor();
    expect(await page.locator('.cards tbody tr').count()).toBe(25);
    await page.goBack();
    await chartOf(page).focus();
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowLeft');
    expect(await chartOf(page).getAttribute('aria-valuenow')).toBe('49998');
    for (let times = 0; times < 8; times++) await page.keyboard.press('+');
    await page.keyboard.press('Enter');
    await page.waitForURL(/event=event-49998/);
  });

  test('the page of an identity asks for its score and its events while its script is loaded', async () => {
    const page = await newPage(browser, server.url);
    const release = await holdBack(page, /\/(main|identity-view)-\w+\.js$/);
    const asked = [/\/v1\/disc\/score\/[^/]+$/, /\/v1\/disc\/score\/[^/]+\/history\?/].map((url) =>
      page.waitForRequest(url),
    );
    await page.goto(`${server.url}/console#/identity/${FALLEN}`);
    await Promise.all(asked);
    release();
    await page.getByTestId('score').waitFor();
  });

  test('an id of 128 characters moves nothing out of a narrow screen', async () => {
    const width = 390;
    const page = await open('', { viewport: { width, height: 800 } });
    await page.evaluate(`sessionStorage.setItem('credence-key', ${JSON.stringify(server.key)})`);
    const id = `tris:${'x'.repeat(123)}`;
    const policy_id = 'VP_LONG_OWNER_V1';
    await server.relay({ tris_id: id });
    const created = await server.post('/v1/policies/vp', {
      policy_id,
      tris_org: id,
      inputs: [{ metric: 'social_trade_rating', criticality: 'Critical', weight: 0.14 }],
      metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
    });
    expect(created.status).toBe(201);
    await page.goto(`${server.url}/console#/live`);
    await page.reload();
    const row = page.getByRole('row', { name: id });
    await row.waitFor();
    const { x, width: wide } = (await row.getByRole('cell').nth(1).boundingBox())!;
    expect(x + wide).toBeLessThanOrEqual(width);
    await page.goto(`${server.url}/console#/lab/${policy_id}`);
    await page.getByRole('button', { name: 'Replay over everyone' }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  });

  test('the axis has no date that could be read in two ways', async () => {
    const page = await newPage(browser, server.url);
    await page.addInitScript(`
      const texts = (window.drawnTexts = new Set());
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        texts.add(text);
        return fillText.call(this, text, ...rest);
      };
    `);
    await page.goto(`${server.url}/console#/identity/${FALLEN}`);
    await settled(page);
    await chartOf(page).focus();
    await page.keyboard.press('End');
    for (let times = 0; times < 13; times++) await page.keyboard.press('+');
    // Hours, with their day.
    await page.waitForFunction(`[...drawnTexts].some((text) => /^\\d+(:\\d\\d|[ap]m)$/.test(text))`);
    const texts: string[] = await page.evaluate('[...drawnTexts]');
    expect(texts.filter((text) => /\d\/\d|[ap]m$/.test(text))).toEqual([]);
  });

  test.each(SCREENS)('is accessible and readable: %s, %i pixels wide', async (colorScheme, width) => {
    const viewport = { width, height: 800 };
    const page = await open('', { colorScheme, viewport });
    expect(await violations(page)).toEqual([]);
    for (const name of ['Overview', 'Policies']) {
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name }).hover();
      expect(await violations(page)).toEqual([]);
    }
    for (const [name, parameters] of [
      ['identity', ''],
      ...['events', 'why', 'endorsements', 'access', 'disputes', 'time'].map((tab) => [tab, `?tab=${tab}`] as const),
      ['comparison', `?compare=on&b_as_of=${BEFORE_FALL}`],
    ]) {
      await page.goto(`${server.url}/console#/identity/${FALLEN}${parameters}`);
      await settled(page);
      expect(await violations(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      const clip = { x: 0, y: 0, width, height: 1100 };
      await picture(page, `${name}-${colorScheme}-${width}`, { clip, fullPage: true });
    }
  });
});

test('the console has less than 350 kB, compressed, and its first view less than 180 kB', () => {
  const assets = 'dist/console/assets';
  const sizeOf = (files: Iterable<string>) =>
    [...files].reduce((sum, file) => sum + statSync(join(assets, `${file}.gz`)).size, 0);
  expect(sizeOf(readdirSync(assets).filter((file) => !file.endsWith('.gz')))).toBeLessThan(350_000);
  // What the page names, and what that imports before it runs.
  const first = new Set<string>();
  const load = (text: string, names: RegExp) => {
    for (const [, file] of text.matchAll(names)) {
      if (first.has(file!)) continue;
      first.add(file!);
      load(readFileSync(join(assets, file!), 'utf8'), /(?:from|import)"\.\/([^"]+\.js)"/g);
    }
  };
  load(readFileSync('dist/console/index.html', 'utf8'), /"console\/assets\/([^"]+)"/g);
  expect(first.size).toBeGreaterThan(2);
  expect(sizeOf(first)).toBeLessThan(180_000);
});

test('without the console, the address of the service leads to the documentation', async () => {
  const { serveConsole } = await import(resolve('dist/src/app/console.js'));
  const answers = async (console: boolean) => {
    const app = fastify();
    serveConsole(app, { console });
    const at = async (url: string) => app.inject(url).then(({ statusCode, headers }) => [statusCode, headers.location]);
    return { '/': await at('/'), '/console': await at('/console'), '/console/': await at('/console/') };
  };
  expect(await answers(true)).toEqual({
    '/': [302, '/console'],
    '/console': [200, undefined],
    '/console/': [302, '/console'],
  });
  expect(await answers(false)).toEqual({
    '/': [302, '/docs'],
    '/console': [404, undefined],
    '/console/': [404, undefined],
  });
});
