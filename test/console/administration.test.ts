import { createHash } from 'node:crypto';
import { createServer, type Server as HttpServer } from 'node:http';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { SCOPES } from '../../src/credentials/caller.js';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { SCREENS, describeBrowser, holdBack, launch, picture, settled, violations, watchedPages } from './browser.js';

/** The administration of the built console in a browser: every action once, as an operator and as an organization. */

const OPERATOR = 'secret-operator';
const LENDER = 'secret-lender';
const RELAYER = 'secret-relayer';
const KEYS = [
  { id: 'operator', secret: OPERATOR, scopes: SCOPES },
  { id: 'lender', secret: LENDER, scopes: ['identity:write', 'webhooks:write'], organization: 'tris:lender' },
  { id: 'relayer', secret: RELAYER, scopes: ['relay:write'] },
];
const TABS = ['organizations', 'identities', 'issuers', 'webhooks', 'keys', 'usage'];
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

describeBrowser('the administration', () => {
  let server: Server;
  let browser: Browser;
  let receiver: HttpServer;
  let folder: string;
  const newPage = watchedPages();
  /** What the receiver of webhooks answers. */
  let answers = 204;
  let received = 0;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'credence-administration-'));
    const keys = KEYS.map(({ secret, ...key }) => ({ ...key, sha256: sha256(secret) }));
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(keys));
    receiver = createServer((request, response) => {
      request.resume().on('end', () => {
        received++;
        response.writeHead(answers).end();
      });
    });
    await new Promise<void>((listening) => receiver.listen(0, '127.0.0.1', listening));
    const env = {
      CREDENCE_API_KEYS: join(folder, 'keys.json'),
      CREDENCE_WEBHOOK_LOOPBACK: 'on',
      CREDENCE_RATE_LIMIT: '0',
    };
    [server, browser] = await Promise.all([Server.start({ data: join(folder, 'data'), env }), launch()]);
    server.key = OPERATOR;
    const registered = await server.post('/v1/organizations', {
      tris_org: 'tris:lender',
      platform_ids: ['lender-app'],
    });
    expect(registered.status).toBe(201);
  });
  afterAll(async () => {
    await browser?.close();
    await server?.end();
    receiver?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(address: string, key: string | null = OPERATOR, options: BrowserContextOptions = {}) {
    const page = await newPage(browser, server.url, options);
    await page.goto(`${server.url}/console`);
    if (key !== null) await page.evaluate(`sessionStorage.setItem('credence-key', ${JSON.stringify(key)})`);
    await page.goto(`${server.url}/console#/${address}`);
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await settled(page);
    return page;
  }
  const tab = (name: string, key?: string | null) => open(`administration?tab=${name}`, key);
  const button = (page: Page | Locator, name: string | RegExp) =>
    page.getByRole('button', { name, exact: typeof name === 'string' });
  const row = (page: Page, list: string, text: string) =>
    page.getByRole('region', { name: list }).getByRole('row').filter({ hasText: text });
  /** Confirms the open dialog and waits until it is closed. */
  const confirm = async (page: Page, verb: string) => {
    await button(page.getByRole('dialog'), verb).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };
  /** Presses Tab until the element has the focus. */
  const tabTo = async (page: Page, element: Locator) => {
    for (let n = 0; n < 60; n++) {
      if (await element.evaluate((found) => found === found.ownerDocument.activeElement)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error('The element cannot be reached with Tab.');
  };

  test('an organization is registered with the keyboard, gets a platform, and is vetted until that is revoked', async () => {
    const page = await tab('organizations');
    await tabTo(page, button(page, 'Register an organization…'));
    await page.keyboard.press('Enter');
    await page.locator('[role=dialog] input:focus').waitFor();
    await page.keyboard.type('shop');
    await page.keyboard.press('Tab');
    await page.keyboard.type('shop-web');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('alert').filter({ hasText: 'tris_org must be a TRIS id' }).waitFor();
    await page.getByRole('dialog').getByLabel('TRIS id').fill('tris:shop');
    await tabTo(page, button(page.getByRole('dialog'), 'Register'));
    await page.keyboard.press('Enter');
    await row(page, 'List of organizations', 'tris:shop').getByText('not vetted').waitFor();
    await page.getByRole('link', { name: 'tris:shop' }).click();
    await page.getByRole('heading', { level: 1, name: 'tris:shop' }).waitFor();
    await button(page, 'Register a platform…').click();
    await page.getByLabel('Id of the platform').fill('shop-app');
    await confirm(page, 'Register');
    await page.getByRole('rowheader', { name: 'shop-app' }).waitFor();
    await button(page, 'Vet tris:shop').click();
    await confirm(page, 'Vet');
    await page.getByText('Unranked').waitFor();
    expect((await server.get('/v1/organizations/tris:shop')).json).toMatchObject({
      vetted: true,
      platform_ids: ['shop-app', 'shop-web'],
    });
    await page.getByRole('link', { name: 'All organizations' }).click();
    await button(page, 'Revoke the vetting of tris:shop').click();
    await confirm(page, 'Revoke');
    await row(page, 'List of organizations', 'tris:shop').getByText('not vetted').waitFor();
  });

  test('the BAD status of an identity is set, changed and ended', async () => {
    const page = await tab('identities');
    await page.getByLabel('TRIS id, or wallet').fill('tris:mallory');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing is known about tris:mallory yet.').waitFor();
    await button(page, 'Set a BAD status…').click();
    await page.getByLabel('Level').selectOption('3');
    await page.getByLabel('Reason, as a code').fill('confirmed_fraud');
    await confirm(page, 'Set it');
    await page.getByText('Level 3, confirmed_fraud, since').waitFor();
    expect((await server.get('/v1/disc/score/tris:mallory')).json).toMatchObject({ score: 3, score_rating: 'BAD' });
    await button(page, 'Change it…').click();
    await page.getByLabel('Level').selectOption('1, the worst');
    await page.getByLabel('Reason, as a code').fill('confirmed_fraud');
    await confirm(page, 'Set it');
    await page.getByText('Level 1, confirmed_fraud, since').waitFor();
    // The same is a part of the page of the identity.
    await page.goto(`${server.url}/console#/identity/tris:mallory?tab=standing`);
    await button(page, 'End it…').click();
    await confirm(page, 'End the BAD status');
    await page.getByText('None is set: the score is computed.').waitFor();
    expect((await server.get('/v1/disc/score/tris:mallory')).json.bad_status).toBeNull();
  });

  test('a verification is granted by the hash of its evidence, and revoked; an organization revokes its own only', async () => {
    const grant = async (page: Page) => {
      await button(page, 'Grant a verification…').click();
      await page.getByLabel('Expires, if it does').fill('2099-12-31T12:00');
      const file = { name: 'evidence.txt', mimeType: 'text/plain', buffer: Buffer.from('seen') };
      await page.getByLabel('Or its file').setInputFiles(file);
      await eventually(async () => (await page.getByLabel('SHA-256 of the evidence').inputValue()) === sha256('seen'));
      await confirm(page, 'Grant it');
    };
    const list = 'List of verifications';
    const operator = await open('administration?tab=identities&of=tris:alice');
    await grant(operator);
    await row(operator, list, 'key:operator').getByText('in every policy').waitFor();

    const lender = await open('administration?tab=identities&of=tris:alice', LENDER);
    await lender.getByText('Setting and ending it needs the scope ops').waitFor();
    expect(await button(lender, 'Set a BAD status…').count()).toBe(0);
    await grant(lender);
    await row(lender, list, 'tris:lender').getByText('where its issuer is named').waitFor();
    expect(await button(lender, 'Revoke zk-KYH by key:operator').count()).toBe(0);
    expect(await violations(lender)).toEqual([]);
    await button(lender, 'Revoke zk-KYH by tris:lender').click();
    await confirm(lender, 'Revoke it');
    await row(lender, list, 'tris:lender').waitFor({ state: 'detached' });
    expect((await server.get('/v1/disc/score/tris:alice')).json.verification).toMatchObject([
      { status: 'zk-KYH', issuer: 'key:operator', expires_at: '2099-12-31T11:00:00.000Z' },
    ]);
    await button(operator, 'Revoke zk-KYH by key:operator').click();
    await confirm(operator, 'Revoke it');
    await operator.getByText('None at this time.').waitFor();

    const own = await open('administration?tab=identities&of=tris:lender', LENDER);
    await own.getByText('An organization grants itself nothing.').waitFor();
    expect(await button(own, 'Grant a verification…').count()).toBe(0);
    const relayer = await open('administration?tab=identities&of=tris:alice', RELAYER);
    await relayer.getByText('Granting and revoking a verification needs the scope identity:write').waitFor();
  });

  test('an issuer is accredited, and that is withdrawn for one status; an organization sees it', async () => {
    const page = await tab('issuers');
    await button(page, 'Accredit an issuer…').click();
    await page.getByLabel('Issuer', { exact: true }).fill('tris:lender');
    await page.getByLabel('zk-KYH').check();
    await page.getByLabel('zk-KYC (ID only)').check();
    await confirm(page, 'Accredit');
    const lender = await tab('issuers', LENDER);
    await row(lender, 'List of issuers', 'tris:lender').getByText('zk-KYH, zk-KYC (ID only)').waitFor();
    await lender.getByText('Accrediting an issuer, and withdrawing that, needs the scope ops').waitFor();
    expect(await button(lender, /Accredit|Withdraw/).count()).toBe(0);
    await button(page, 'Withdraw tris:lender').click();
    await page.getByRole('dialog').getByLabel('zk-KYH').uncheck();
    await confirm(page, 'Withdraw');
    await row(page, 'List of issuers', 'tris:lender').getByText('zk-KYH', { exact: true }).waitFor();
    await button(page, 'Withdraw tris:lender').click();
    await confirm(page, 'Withdraw');
    await page.getByText('No issuer is accredited.').waitFor();
  });

  test('a key is created, its secret shown once, and deleted', async () => {
    const page = await tab('keys');
    // As on a page without https.
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await page.getByRole('button', { name: 'Create a key…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id, which events record').fill('lendco');
    await dialog.getByLabel('Organization it acts for, if any').fill('lendco');
    await dialog.getByLabel('relay:write').check();
    await dialog.getByRole('button', { name: 'Create', exact: true }).click();
    await dialog.getByRole('alert').filter({ hasText: 'organization must be a TRIS id' }).waitFor();
    expect(await violations(page)).toEqual([]);
    await dialog.getByLabel('Organization it acts for, if any').fill('tris:lendco');
    const answer = await holdBack(page, '**/v1/ops/keys');
    await dialog.getByRole('button', { name: 'Create', exact: true }).click();
    // Under way, it can no longer be cancelled: nobody would see the secret.
    await dialog.getByRole('button', { name: 'Cancel', disabled: true }).waitFor();
    await page.keyboard.press('Escape');
    answer();
    const secret = (await page.getByTestId('secret').textContent())!;
    expect((await server.get('/v1/me', { key: secret })).json).toEqual({
      key_id: 'lendco',
      scopes: ['relay:write'],
      organization: 'tris:lendco',
    });
    // It would copy nothing.
    expect(await dialog.getByRole('button', { name: 'Copy' }).count()).toBe(0);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByTestId('secret').waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(secret);
    await page.getByRole('button', { name: 'Delete lendco' }).click();
    await confirm(page, 'Delete lendco');
    await page.getByRole('button', { name: 'Delete lendco' }).waitFor({ state: 'detached' });
    expect((await server.send('GET', '/v1/me', { key: secret })).status).toBe(401);
    expect(await page.getByRole('button', { name: 'Delete operator' }).count()).toBe(0);
  });

  test.each([
    ['an operator', OPERATOR, 'the operators', null],
    ['an organization', LENDER, 'tris:lender', 'tris:lender'],
  ])(
    'a webhook of %s is created, tested, paused, gets another secret, and is deleted',
    async (_who, key, owner, org) => {
      answers = 204;
      const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/${sha256(key).slice(0, 8)}`;
      const page = await tab('webhooks', key);
      await page.getByText(`Here are those of ${owner}.`).waitFor();
      await button(page, 'Create a webhook…').click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Address').fill(url);
      await dialog.getByLabel('score.crossed').check();
      await dialog.getByLabel('Falls below').fill('20');
      await dialog.getByLabel('rating.changed').check();
      await dialog.getByLabel('BAD', { exact: true }).check();
      await dialog.getByLabel('verification.changed').check();
      await dialog.getByLabel('Only these identities').fill('tris:bob tris:carol');
      expect(await violations(page)).toEqual([]);
      await button(dialog, 'Create').click();
      const secret = (await page.getByTestId('secret').textContent())!;
      expect(secret).toMatch(/^whsec_/);
      await button(dialog, 'Close').click();
      expect(await page.content()).not.toContain(secret);
      const hook = page.getByRole('article', { name: url });
      await hook.getByText('only tris:bob, tris:carol, to BAD, below 20').waitFor();
      const [webhook] = (await server.get('/v1/webhooks', { key })).json.webhooks;
      expect(webhook).toMatchObject({
        url,
        tris_org: org,
        events: ['rating.changed', 'score.crossed', 'verification.changed'],
        filter: { tris_ids: ['tris:bob', 'tris:carol'], ratings: ['BAD'], score_below: 20, score_above: null },
      });

      await button(page, `Send a test to ${url}`).click();
      await hook.getByText(/^The test was delivered: answered 204/).waitFor();
      answers = 503;
      const body = { status: 'zk-KYH', evidence_hash: sha256('seen') };
      expect((await server.send('POST', '/v1/identities/tris:bob/verifications', { key, body })).status).toBe(201);
      await button(page, `Deliveries to ${url}`).click();
      const delivery = row(page, 'Deliveries', 'tris:bob');
      // The second attempt comes after five seconds, the third after five minutes.
      await delivery.getByText(/^answered 503 in/).waitFor();
      await eventually(
        async () => new Date((await delivery.locator('time').first().getAttribute('datetime'))!) > new Date(),
      );
      expect(await violations(page)).toEqual([]);
      answers = 204;
      await delivery.getByText('delivered').waitFor();
      const before = received;
      await button(delivery, /^Redeliver/).click();
      await eventually(async () => received > before);

      await button(page, `Pause ${url}`).click();
      await hook.getByText('disabled: paused').waitFor();
      await button(page, `Enable ${url}`).click();
      await hook.getByText('active', { exact: true }).waitFor();
      await button(page, `New secret of ${url}`).click();
      await button(dialog, 'Replace it').click();
      expect(await page.getByTestId('secret').textContent()).not.toBe(secret);
      await button(dialog, 'Close').click();
      await button(page, `Delete ${url}`).click();
      await confirm(page, 'Delete the webhook');
      await page.getByText('There is no webhook yet.').waitFor();
    },
  );

  test('the page of an organization has its webhooks and keys, for its own keys to change, and for operators', async () => {
    const url = 'https://lender.example/hooks/credence';
    const inputs = [{ metric: 'financial_loan_repayment', criticality: 'Critical', weight: 0.14 }];
    const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
    expect(
      (await server.post('/v1/policies/vp', { policy_id: 'VP_LENDER_V1', tris_org: 'tris:lender', inputs, metadata }))
        .status,
    ).toBe(201);
    const body = { url, events: ['rating.changed', 'score.crossed'], filter: { score_below: 20 } };
    expect((await server.send('POST', '/v1/webhooks', { key: LENDER, body })).status).toBe(201);
    const place = 'administration/tris:lender';
    const lender = await open(place, LENDER);
    await button(lender, `Pause ${url}`).click();
    await lender.getByRole('article', { name: url }).getByText('disabled: paused').waitFor();
    const operator = await open(place);
    await operator.getByRole('article', { name: url }).getByText('disabled: paused').waitFor();
    await operator.getByText('Only its own keys change them.').waitFor();
    expect(await button(operator, `Enable ${url}`).count()).toBe(0);
    await row(operator, 'List of keys', 'lender').waitFor();
    expect(await row(operator, 'List of keys', 'relayer').count()).toBe(0);
    expect(await violations(operator)).toEqual([]);
    await picture(operator, 'administration-light-1280', { fullPage: true });
    await button(lender, `Delete ${url}`).click();
    await confirm(lender, 'Delete the webhook');
    await lender.getByRole('article', { name: url }).waitFor({ state: 'detached' });
    const relayer = await open(place, RELAYER);
    await relayer.getByText('Its webhooks and its keys are for its own keys, and for operators.').waitFor();
    expect(await relayer.getByRole('heading', { name: 'Webhooks' }).count()).toBe(0);
  });

  test('usage is shown against its bounds, to operators and to organizations', async () => {
    await server.relay({ tris_id: 'tris:dave' });
    const page = await tab('usage');
    await page.getByText('What key:operator has used').waitFor();
    await page.getByTestId('usage-actions').getByText('1 of 5,000,000').waitFor();
    await page
      .getByTestId('usage-bytes')
      .getByText(/^\d+ bytes of 1 GB$/)
      .waitFor();
    await (await tab('usage', LENDER)).getByText('What tris:lender has used').waitFor();
  });

  test('what needs another key says so in place, and nothing is offered that would be refused', async () => {
    const needs: [string, string][] = [
      ['organizations', 'The list of organizations needs the scope ops'],
      ['webhooks', 'The list of webhooks needs the scope webhooks:write'],
      ['keys', 'The list of keys needs the scope ops'],
    ];
    for (const [name, text] of needs) {
      const page = await tab(name, RELAYER);
      await page.getByText(text).waitFor();
      expect(await button(page, /…$/).count()).toBe(0);
    }
    const lender = await tab('organizations', LENDER);
    await lender.getByRole('link', { name: 'tris:lender' }).click();
    await lender.getByText('Vetting an organization needs the scope ops').waitFor();
    await lender.getByText('The list of keys needs the scope ops').waitFor();
    expect(await button(lender, /…$/).allInnerTexts()).toEqual(['Create a webhook…']);
    const anonymous = await tab('usage', null);
    await anonymous.getByText('everything here needs one').waitFor();
    await anonymous.getByText('What is used needs a key.').waitFor();
    expect(await violations(anonymous)).toEqual([]);
  });

  test.each(SCREENS)('is accessible and readable: %s, %i pixels wide', async (colorScheme, width) => {
    const long = `tris:${'organization-'.repeat(9)}`;
    await server.post('/v1/organizations', { tris_org: long, platform_ids: [] });
    await server.post('/v1/issuers', { issuer: 'tris:lender', statuses: ['zk-KYH'] });
    const body = { status: 'zk-KYH', evidence_hash: sha256('seen') };
    await server.post('/v1/identities/tris:erin/verifications', body);
    await server.post('/v1/identities/tris:erin/bad-status', { level: 2, reason_code: 'confirmed_fraud' });
    const page = await open('administration', OPERATOR, { colorScheme, viewport: { width, height: 800 } });
    for (const address of [...TABS.map((name) => `?tab=${name}&of=tris:erin`), '/tris:lender']) {
      await page.goto(`${server.url}/console#/administration${address}`);
      await settled(page);
      expect(await violations(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    }
  });
});
