import { Wallet } from 'ethers/wallet';
import type { Browser, Download, Page } from 'playwright-core';
import { Server } from '../e2e/server.js';
import { describeBrowser, launch, picture, settled, tenths, violations, watchedPages } from './browser.js';

/** What people come to the console for, on the example data: each way takes at most ten clicks. */

const MEMBER = 'tris:otc:905';
const MOST_CLICKS = 10;

/** A wallet that announces itself to a page (EIP-6963); `sign` is a function of the test. */
const ANNOUNCED = `(() => {
  const provider = {
    request: async ({ method, params }) => {
      if (method === 'eth_chainId') return '0x1';
      const { address, signature, refused } = await globalThis.walletOfTest(method, params?.[0] ?? '');
      if (refused) throw Object.assign(new Error('declined'), { code: 4001 });
      return method === 'personal_sign' ? signature : [address];
    },
  };
  const info = { uuid: 'e7c1d5a6-0000-4000-8000-000000000001', name: 'Test Wallet', icon: 'data:,', rdns: 'org.example' };
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }));
  addEventListener('eip6963:requestProvider', announce);
})()`;
const COUNTED = `addEventListener('click', (event) => {
  if (event.isTrusted) sessionStorage.setItem('clicks', Number(sessionStorage.getItem('clicks')) + 1);
}, true)`;

describeBrowser('at most ten clicks', () => {
  let server: Server;
  let browser: Browser;
  const newPage = watchedPages();

  beforeAll(async () => {
    [server, browser] = await Promise.all([Server.start({ args: ['--example'] }), launch()]);
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await server?.end();
  });

  async function open(key?: string): Promise<Page> {
    const page = await newPage(browser, server.url, { acceptDownloads: true });
    await page.addInitScript(COUNTED);
    await page.goto(`${server.url}/console`);
    if (key !== undefined) {
      await page.getByRole('button', { name: 'API key' }).click();
      await page.getByLabel('Key', { exact: true }).fill(key);
      await page.getByRole('button', { name: 'Use key' }).click();
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    }
    return page;
  }
  const end = async (page: Page) => {
    const clicks = Number(await page.evaluate(`sessionStorage.getItem('clicks')`));
    expect(clicks).toBeGreaterThan(0);
    expect(clicks).toBeLessThanOrEqual(MOST_CLICKS);
  };
  const search = async (page: Page, id: string) => {
    await page.getByRole('combobox', { name: 'Find an identity' }).fill(id);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: id }).waitFor();
  };
  const tab = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click();

  test('a newcomer finds a member, and why the score is what it is', async () => {
    const page = await open();
    await search(page, MEMBER);
    await page.getByText('of 100,').waitFor();
    await page.getByText('BAD', { exact: true }).first().waitFor();
    await tab(page, 'Why');
    await page.getByRole('region', { name: 'Forfeits' }).getByText('compliance_trade_flags').waitFor();
    await end(page);
  });

  test('an integrator reads the rules of a policy, and whom it let in', async () => {
    const page = await open(server.key);
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Policies' }).click();
    await page.getByRole('link', { name: 'AP_ESCROW_V1' }).click();
    await page.getByRole('region', { name: 'Rules as JSON' }).getByText('disc_min').waitFor();
    await search(page, MEMBER);
    await tab(page, 'Access');
    await page.getByRole('region', { name: 'Checks' }).getByText('denied').first().waitFor();
    await end(page);
  });

  test('an auditor goes back in time, and passes on a link to exactly these numbers', async () => {
    const page = await open();
    await search(page, MEMBER);
    await tab(page, 'Time travel');
    await page.getByRole('textbox', { name: 'As of (occurred by)' }).fill('2013-06-01T00:00');
    await page.waitForURL(/as_of=/);
    const as_of = new URLSearchParams(page.url().split('?')[1]).get('as_of')!;
    const past = (await server.get(`/v1/disc/score/${MEMBER}?as_of=${as_of}`)).json;
    const shows = page.getByTestId('score').getByText(tenths(past.score), { exact: true });
    await shows.waitFor();
    await page.getByRole('link', { name: 'Link to exactly these numbers' }).click();
    await page.waitForURL(new RegExp(`as_of_position=${past.position}`));
    await settled(page);
    await shows.waitFor();
    await end(page);
  });

  test('an operator compares the read models with the log', async () => {
    const page = await open(server.key);
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Operations' }).click();
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('Identical', { exact: true }).waitFor();
    await end(page);
  });

  test('a person contests a false flag, an operator answers, and the flag counts no more', async () => {
    const wallet = Wallet.createRandom();
    const tris = `tris:${wallet.address.toLowerCase()}`;
    let declines = true;
    const person = await newPage(browser, server.url, { acceptDownloads: true });
    await person.exposeFunction('walletOfTest', async (method: string, hex: string) => {
      if (method !== 'personal_sign') return { address: wallet.address };
      if (declines) return { refused: true };
      return { signature: await wallet.signMessage(Buffer.from(hex.slice(2), 'hex')) };
    });
    await person.addInitScript(ANNOUNCED);
    await person.addInitScript(COUNTED);
    await person.goto(`${server.url}/console#/me`);

    await person.getByRole('button', { name: 'Sign in with Test Wallet' }).click();
    await person.getByText('You declined in the wallet. Nothing was changed.').waitFor();
    declines = false;
    await person.getByRole('button', { name: 'Sign in with Test Wallet' }).click();
    await person.getByRole('button', { name: 'Claim a TRIS with Test Wallet' }).click();
    await person.getByText(tris, { exact: true }).waitFor();
    await settled(person);
    await look(person, 'me-new');

    await server.relay({ tris_id: tris, criticality: 'Critical' });
    const flag = { category: 'compliance', action_type: 'trade_flags', criticality: 'Critical' };
    const flagged = await server.relay({ tris_id: tris, ...flag });
    const check = { policy_id: 'AP_HARBOR_LOAN_V1', subject_tris: tris };
    expect((await server.post('/v1/policies/ap/check', check)).json.granted).toBe(false);
    const denied = Number((await server.getAfter(flagged, `/v1/disc/score/${tris}`)).json.score);

    // A reload would sign the person out: the page asks again when it is shown again.
    await person.evaluate(`sessionStorage.setItem('clicks', '0')`);
    await person.getByRole('link', { name: 'Overview' }).click();
    await person.getByRole('link', { name: 'My page' }).click();
    await person.getByRole('button', { name: 'Why AP_HARBOR_LOAN_V1 decided so' }).click();
    await person.getByRole('dialog').getByText('Access was denied').waitFor();
    await look(person, 'me-notice');
    await person.getByRole('button', { name: 'Close' }).click();
    await person.getByRole('link', { name: /^Every statement about you/ }).click();
    await person.getByRole('button', { name: /compliance_trade_flags/ }).click();
    await person.getByRole('button', { name: 'Contest this statement' }).click();
    await person.getByLabel('What is wrong').fill('The goods had arrived.');
    await person.getByRole('button', { name: 'Open the dispute' }).click();
    await person.getByText('The dispute is open.').waitFor();
    await end(person);
    await person.getByRole('button', { name: 'Close' }).click();

    const operator = await open(server.key);
    await search(operator, tris);
    await tab(operator, 'Disputes');
    await operator.getByText('The goods had arrived.').waitFor();
    await look(operator, 'dispute');
    await operator.getByRole('button', { name: 'Answer the dispute' }).click();
    await operator.getByLabel('Why, for the person').fill('The parcel was found.');
    await operator.getByRole('dialog').getByRole('button', { name: 'Answer', exact: true }).click();
    await operator.getByText('Upheld', { exact: true }).waitFor();
    await end(operator);

    await person.getByRole('link', { name: 'My page' }).click();
    await person.getByText('The parcel was found.').waitFor();
    await settled(person);
    await look(person, 'me');
    const { json } = await server.get(`/v1/actions/${flagged.json.action_id}`);
    expect(json.state).toBe('withdrawn');
    expect(Number((await server.get(`/v1/disc/score/${tris}`)).json.score)).toBeGreaterThan(denied);

    const [download] = await Promise.all([
      person.waitForEvent('download') as Promise<Download>,
      person.getByRole('button', { name: /^Download all/ }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`${tris.replaceAll(':', '_')}.ndjson`);
    await person.getByRole('button', { name: 'Sign out' }).click();
    await person.getByRole('button', { name: 'Sign in with Test Wallet' }).waitFor();
  });

  test('whoever made a statement withdraws it after a look at what would change, and reinstates it', async () => {
    const { entries } = (await server.get(`/v1/disc/score/${MEMBER}/history?limit=1000`)).json;
    const flag = entries.find(({ metric }: any) => metric === 'compliance_trade_flags');
    const state = async () => (await server.get(`/v1/actions/${flag.event_id}`)).json.state;
    const place = `${server.url}/console#/identity/${encodeURIComponent(MEMBER)}?tab=events&event=${flag.event_id}`;
    const { json: created } = await server.post('/v1/ops/keys', { key_id: 'auditor', scopes: ['audit:read'] });
    expect(typeof created.key).toBe('string');
    const auditor = await open(created.key);
    await auditor.goto(place);
    await auditor.getByText(flag.event_id).waitFor();
    await settled(auditor);
    expect(await auditor.getByRole('button', { name: 'Withdraw this action' }).count()).toBe(0);
    const page = await open(server.key);
    await page.goto(place);
    for (const [verb, after] of [
      ['Withdraw', 'withdrawn'],
      ['Reinstate', 'counted'],
    ] as const) {
      const before = await state();
      await page.getByRole('button', { name: `${verb} this action` }).click();
      await page.getByText(/^The score would go from/).waitFor();
      expect(await state()).toBe(before);
      await look(page, verb.toLowerCase());
      await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
      await page
        .getByRole('button', { name: `${after === 'withdrawn' ? 'Reinstate' : 'Withdraw'} this action` })
        .waitFor();
      expect(await state()).toBe(after);
    }
  });

  /** What a view looks like: without violations. */
  async function look(page: Page, name: string): Promise<void> {
    await page.mouse.move(0, 0);
    expect(await violations(page)).toEqual([]);
    await picture(page, `${name}-light-1280`, { clip: { x: 0, y: 0, width: 1280, height: 900 }, fullPage: true });
  }
});
