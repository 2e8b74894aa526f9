import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { build } from 'esbuild';
import { Webhook } from 'standardwebhooks';
import type { Browser, Page } from 'playwright-core';
import { describeBrowser, launch, watch } from '../console/browser.js';
import { checkpointOf, inclusionProof, proofFile, sha256, signerOf } from '../audit/reference.js';
import { Server } from '../e2e/server.js';
import { Proxy } from '../servers/proxy.js';

/** The client on a page of another origin and in a worker, in Chromium, against the built service. */

/** Runs in the page and in the worker: what an integrator does there. */
const TRIAL = `
import { CredenceClient, ProblemError, verifyWebhook } from './client.js';

export async function trial({ baseUrl, apiKey, trisId, webhook, cut }) {
  const client = new CredenceClient({ baseUrl, apiKey });
  const action = { tris_id: trisId, action_type: 'repayment', category: 'financial', criticality: 'High', platform_id: 'web' };
  const relay = () => client.post('/api/decision-relay', { body: action });
  await relay();
  const path = { tris_id: trisId };
  const entries = [];
  for await (const entry of client.list('/v1/disc/score/{tris_id}/history', { params: { path } })) entries.push(entry.metric);
  const types = [];
  for await (const event of client.live({ trisIds: [trisId] })) {
    types.push(event.type);
    if (types.length === 3) break;
    // The next change comes by a second connection, which continues after the last event.
    if (event.type === 'change') await cut();
    await relay();
  }
  const policy_id = 'AP_BROWSER_V1';
  await client.post('/v1/policies/ap', { body: { policy_id, rules: { disc_min: 0 } } });
  const { data } = await client.post('/v1/policies/ap/check', { body: { policy_id, subject_tris: trisId } });
  const eligibility = await client.verifyEligibility(data.eligibility_token, { policy: policy_id });
  const refusal = await client.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id: 'bob' } } }).catch((error) => error);
  const message = await verifyWebhook(webhook.body, webhook.headers, webhook.secret);
  return {
    entries,
    types,
    subject: eligibility.claims?.sub,
    refused: refusal instanceof ProblemError && [refusal.status, refusal.code, refusal.requestId !== null],
    message,
  };
}
`;
const WORKER = `
import { trial } from './trial.js';
onmessage = async ({ data }) => {
  const cut = () => new Promise((resolve) => {
    onmessage = () => resolve();
    postMessage({ isCut: true });
  });
  postMessage({ result: await trial({ ...data, cut }) });
};
`;

const secret = `whsec_${Buffer.from('a secret of 24 bytes or more').toString('base64')}`;
const body = JSON.stringify({ type: 'webhook.test', timestamp: '2026-11-20T12:00:00.000Z', data: {} });

describeBrowser('the client in a browser', () => {
  let service: Server;
  let proxy: Proxy;
  let browser: Browser;
  let page: Page;
  let trouble: string[];
  const files: Record<string, string> = {
    '/': '<!doctype html><title>Client</title>',
    '/trial.js': TRIAL,
    '/worker.js': WORKER,
  };
  const site = createServer(({ url }, response) => {
    const type = url === '/' ? 'text/html' : 'text/javascript';
    response.writeHead(files[url!] === undefined ? 404 : 200, { 'content-type': type }).end(files[url!]);
  });

  beforeAll(async () => {
    const contents = ['client', 'webhooks', 'audit'].map((name) => `export * from './${name}.ts';`).join('\n');
    const { outputFiles } = await build({
      stdin: { contents, resolveDir: 'clients/typescript/src' },
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
    });
    files['/client.js'] = outputFiles[0]!.text;
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    [service, browser] = await Promise.all([Server.start(), launch()]);
    proxy = await Proxy.to(Number(new URL(service.url).port));
    page = await browser.newPage();
    trouble = watch(page, 'http://127.0.0.1:');
    await page.exposeFunction('cutConnections', () => proxy.cut());
    await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  });
  afterAll(async () => {
    await browser?.close();
    await proxy?.close();
    site.close();
    await service?.end();
  });

  const given = (trisId: string) => {
    const sent = new Date();
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(sent.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign('msg_1', sent, body),
    };
    const baseUrl = `http://127.0.0.1:${proxy.port}`;
    return { baseUrl, apiKey: service.key, trisId, webhook: { body, headers, secret } };
  };
  const expected = (trisId: string) => ({
    entries: ['financial_repayment'],
    types: ['heartbeat', 'change', 'change'],
    subject: trisId,
    refused: [400, 'validation_failed', true],
    message: JSON.parse(body),
  });

  test('writes, reads, lists, follows changes over a cut connection, and verifies, on a page of another origin', async () => {
    const result = await page.evaluate(async (options) => {
      const { trial } = await import(`${(globalThis as any).location.origin}/trial.js`);
      return trial({ ...options, cut: (globalThis as any).cutConnections });
    }, given('tris:page'));
    expect(result).toEqual(expected('tris:page'));
    expect(trouble.filter((line) => !line.includes('net::ERR'))).toEqual([]);
  });

  test('does the same in a worker', async () => {
    const result = await page.evaluate(
      (options) =>
        new Promise((resolve, reject) => {
          const worker = new (globalThis as any).Worker('/worker.js', { type: 'module' });
          worker.addEventListener('error', reject);
          worker.addEventListener('message', ({ data }: any) => {
            if (!data.isCut) return resolve(data.result);
            void (globalThis as any).cutConnections().then(() => worker.postMessage({}));
          });
          worker.postMessage(options);
        }),
      given('tris:worker'),
    );
    expect(result).toEqual(expected('tris:worker'));
  });

  test('verifies a proof of the log, and refuses it after one digit was changed', async () => {
    const signer = signerOf('credence.example/log');
    const leaves = [1, 2, 3].map((number) => sha256(`leaf ${number}`));
    const file = proofFile(1, inclusionProof(1, leaves), checkpointOf('credence.example/log', leaves, signer));
    const given = { file, leaf: [...leaves[1]!], keys: signer.key };
    const results = await page.evaluate(async ({ file, leaf, keys }) => {
      const { AuditError, verifyProof } = await import(`${(globalThis as any).location.origin}/client.js`);
      const verify = (text: string) => verifyProof(text, new Uint8Array(leaf), { keys });
      const refusal = await verify(file.replace('\n3\n', '\n4\n')).catch((error: unknown) => error);
      return [(await verify(file)).index, refusal instanceof AuditError && refusal.reason];
    }, given);
    expect(results).toEqual([1, 'signature']);
  });
});
