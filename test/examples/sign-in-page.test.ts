import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Wallet } from 'ethers/wallet';
import { pageServer } from '../../examples/sign-in/serve.mjs';
import { Session, discoverWallets } from '../../examples/sign-in/session.js';
import { Server } from '../e2e/server.js';

/** The sign-in page as it is served, before the built service: what its script does is done here with real wallets. */

let service: Server | undefined;
const page = pageServer(() => service!.url);
let origin: string;

beforeAll(async () => {
  await new Promise<void>((listening) => page.listen(0, '127.0.0.1', listening));
  origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
  service = await Server.start({ env: { CREDENCE_PUBLIC_URL: origin } });
});
afterAll(async () => {
  page.closeAllConnections();
  await new Promise((closed) => page.close(closed));
});

/** An injected wallet (EIP-1193), as far as the page uses one. */
class Injected {
  readonly asked: string[] = [];
  /** Replaces the answer to a method. */
  readonly answers: Record<string, () => unknown> = {};
  /** Which account the person chooses when the page asks to. */
  choice = 0;

  constructor(readonly accounts: readonly { address: string; signMessage(bytes: Uint8Array): Promise<string> }[]) {}

  async request({ method, params = [] }: { method: string; params?: any[] }): Promise<unknown> {
    this.asked.push(method);
    const answer = this.answers[method];
    if (answer) return answer();
    if (method === 'eth_requestAccounts') return [this.accounts[this.choice]!.address.toLowerCase()];
    if (method === 'eth_chainId') return '0x1';
    if (method === 'wallet_requestPermissions') {
      this.choice = this.accounts.length - 1;
      return [];
    }
    if (method === 'personal_sign') {
      const signer = this.accounts.find(({ address }) => address.toLowerCase() === params[1].toLowerCase())!;
      return signer.signMessage(Buffer.from(params[0].slice(2), 'hex'));
    }
    throw rejection(-32601, `${method} is not there`);
  }
}
const newWallet = (accounts = 2) => new Injected(Array.from({ length: accounts }, () => Wallet.createRandom()));
const rejection = (code: number, message = 'no') => Object.assign(new Error(message), { code });
const troubleOf = async (promise: Promise<unknown>): Promise<[string, string]> => {
  const error = await promise.then(
    () => new Error('it succeeded'),
    (error) => error,
  );
  return [error.code, error.message];
};

/** A session whose requests are counted, and can be interfered with. */
function newSession(interfere: (path: string, go: () => Promise<Response>) => Promise<Response> = (_, go) => go()) {
  const requests: { path: string; headers: Record<string, string>; body?: any }[] = [];
  const session = new Session(origin, (url: string, init: any) => {
    const path = url.slice(origin.length);
    requests.push({ path, headers: init.headers, body: init.body && JSON.parse(init.body) });
    return interfere(path, () => fetch(url, init));
  });
  return { session, requests };
}

test('a wallet signs in, claims a TRIS, reads its score, links another account, and signs out', async () => {
  const wallet = newWallet();
  const [first, second] = wallet.accounts.map(({ address }) => address);
  const { session, requests } = newSession();
  await session.signIn(wallet);
  expect([session.wallet, session.trisId, await session.standing()]).toEqual([first, null, null]);
  expect(await troubleOf(session.link(wallet))).toEqual(['no_tris', expect.any(String)]);

  await session.signIn(wallet, 'claim');
  const tris = `tris:${first!.toLowerCase()}`;
  expect(session.trisId).toBe(tris);
  const revoked = requests.filter(({ path }) => path === '/v1/tris/token/revoke');
  expect(revoked).toHaveLength(1); // the session before

  const relayed = await service!.relay({ tris_id: tris });
  expect(relayed.status).toBe(202);
  expect(await session.link(wallet)).toBe(second);
  const { score, rank, credonations, wallets } = (await session.standing()) as any;
  expect(score).toMatchObject({ tris_id: tris, score: 7.6, score_rating: 'Poor', total_tct: 100 });
  expect(rank).toBeNull();
  expect(credonations).toMatchObject([{ from: 'tris:platform:lender', amount: 100, category: 'financial' }]);
  expect(wallets.map((linked: any) => [linked.wallet, linked.proof]).sort()).toEqual(
    [first, second].map((address) => [address, 'signed']).sort(),
  );
  expect(await troubleOf(session.link(wallet))).toEqual(['no_other_account', expect.stringContaining('another one')]);

  await session.signOut();
  expect(session.wallet).toBeNull();
  expect(await troubleOf(session.refresh() as unknown as Promise<void>)).toEqual(['signed_out', expect.any(String)]);
  const { refresh_token } = requests.findLast(({ path }) => path === '/v1/tris/token/revoke')!.body;
  const again = await service!.post('/v1/tris/token/refresh', { refresh_token });
  expect([again.status, again.json.code]).toEqual([401, 'refresh_revoked']);
});

test('a session is renewed once for concurrent requests, again if the answer was lost, and automatically when it has expired', async () => {
  const wallet = newWallet();
  let lose = 0;
  let expire = 0;
  const { session, requests } = newSession(async (path, go) => {
    if (path.startsWith('/v1/wallets/') && expire-- > 0)
      return Response.json({ code: 'token_expired' }, { status: 401 });
    const answer = await go();
    if (path === '/v1/tris/token/refresh' && lose-- > 0) throw new TypeError('network');
    return answer;
  });
  const refreshes = () => requests.filter(({ path }) => path === '/v1/tris/token/refresh').map(({ body }) => body);
  await session.signIn(wallet, 'claim');
  await Promise.all([session.refresh(), session.refresh(), session.refresh()]);
  expect(refreshes()).toHaveLength(1);
  lose = 1;
  await session.refresh();
  const [, lost, repeated] = refreshes();
  expect(repeated).toEqual(lost);
  expire = 1;
  await session.standing();
  expect(new Set(refreshes().map(({ refresh_token }) => refresh_token)).size).toBe(3);
  const bearers = requests.map(({ headers }) => headers['authorization']).filter(Boolean);
  expect(new Set(bearers).size).toBe(2);

  // Ended elsewhere: the page knows at the next request.
  const revoke = refreshes().at(-1);
  await service!.post('/v1/tris/token/revoke', revoke);
  expect(await troubleOf(session.standing())).toEqual(['session_revoked', 'Your session has ended. Sign in again.']);
  expect(session.wallet).toBeNull();
});

test('errors are shown as plain sentences, and nothing is signed or sent in these cases', async () => {
  const wallet = newWallet();
  const { session, requests } = newSession();
  const signing = () => troubleOf(session.signIn(wallet));
  wallet.answers['personal_sign'] = () => Promise.reject(rejection(4001));
  expect(await signing()).toEqual(['wallet_refused', 'You declined in the wallet. Nothing was changed.']);
  wallet.answers['personal_sign'] = () => Promise.reject(rejection(-32002));
  expect(await signing()).toEqual(['wallet_busy', expect.stringContaining('Open it')]);
  wallet.answers['personal_sign'] = () => Promise.reject(rejection(-32603, 'boom'));
  expect(await signing()).toEqual(['wallet_failed', 'The wallet failed: boom']);
  expect(requests.map(({ path }) => path)).toEqual(Array.from({ length: 3 }, () => '/v1/tris/auth/siwe/start'));
  const stranger = Wallet.createRandom();
  wallet.answers['personal_sign'] = () => stranger.signMessage('something else');
  expect(await signing()).toEqual(['siwe_signature', expect.stringContaining('not by the wallet that signs in')]);
  wallet.answers['eth_requestAccounts'] = () => [];
  expect(await signing()).toEqual(['no_account', expect.any(String)]);
  expect(session.wallet).toBeNull();

  const elsewhere = newWallet();
  const other = new Session(origin.replace('127.0.0.1', 'localhost'));
  expect(await troubleOf(other.signIn(elsewhere))).toEqual([
    'other_domain',
    expect.stringContaining('CREDENCE_PUBLIC_URL'),
  ]);
  expect(elsewhere.asked).not.toContain('personal_sign');

  const away = new Session('http://127.0.0.1:1');
  expect(await troubleOf(away.signIn(newWallet()))).toEqual([
    'unreachable',
    expect.stringContaining('cannot be reached'),
  ]);

  // Belongs to somebody already.
  const [mine, theirs] = [newWallet(), newWallet(1)];
  await newSession().session.signIn(theirs, 'claim');
  const { session: owner } = newSession();
  await owner.signIn(mine, 'claim');
  expect(await troubleOf(owner.link(theirs))).toEqual([
    'wallet_already_linked',
    expect.stringContaining('belongs to a TRIS'),
  ]);
  mine.choice = 1;
  expect(await troubleOf(owner.signIn(mine, 'claim'))).toEqual(['no_account', expect.stringContaining(owner.wallet!)]);
  // A wallet that cannot ask which account to use offers the one that is active in it.
  mine.answers['wallet_requestPermissions'] = () => Promise.reject(rejection(-32601));
  expect(await owner.link(mine)).toBe(mine.accounts[1]!.address);
});

test('wallets announce themselves (EIP-6963); without any, the injected one is taken', () => {
  const window = Object.assign(new EventTarget(), { ethereum: undefined as unknown });
  const names: string[][] = [];
  const found = (wallets: { name: string }[]) => void names.push(wallets.map(({ name }) => name));
  const announce = (uuid: string, name: string) =>
    window.dispatchEvent(
      Object.assign(new Event('eip6963:announceProvider'), { detail: { info: { uuid, name }, provider: newWallet() } }),
    );
  window.addEventListener('eip6963:requestProvider', () => {
    announce('1', 'Fox');
    announce('2', 'Rabbit');
    announce('1', 'Fox');
  });
  window.ethereum = newWallet();
  discoverWallets(window, found);
  expect(names).toEqual([['Browser wallet'], ['Fox'], ['Fox', 'Rabbit'], ['Fox', 'Rabbit']]);
});

test('the page is served under the origin of the service, runs no scripts but its own, and lets nothing else through', async () => {
  /** As the path stands: nothing in it is tidied. */
  const of = async (path: string) => {
    const asked = get({ port: Number(new URL(origin).port), path });
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    return [answer.statusCode, answer.headers['content-type']];
  };
  expect(await of('/')).toEqual([200, 'text/html; charset=utf-8']);
  expect(await of('/page.js')).toEqual([200, 'text/javascript; charset=utf-8']);
  expect(await of('/api/disc-score/tris:nobody')).toEqual([404, 'application/problem+json']);
  for (const path of [
    '/metrics',
    '/serve.mjs',
    '/../serve.mjs',
    '//',
    '/v1/../metrics',
    '/v1/..%2fmetrics',
    '/constructor',
  ]) {
    expect([path, ...(await of(path))]).toEqual([path, 404, 'application/problem+json']);
  }
  const html = await readFile('examples/sign-in/index.html', 'utf8');
  expect(/Content-Security-Policy"\s+content="([^"]+)"/.exec(html)![1]).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
      "require-trusted-types-for 'script'; trusted-types 'none'",
  );
  expect(html).not.toMatch(/\son\w+=|\sstyle=|<script(?![^>]*src="page\.js")|https?:/);
  const script = await readFile('examples/sign-in/page.js', 'utf8');
  const ids = new Set([...html.matchAll(/\sid="([\w-]+)"/g)].map(([, id]) => id));
  const used = [...script.matchAll(/(?:\$|onClick|list)\('([\w-]+)'/g)].map(([, id]) => id);
  expect(used.length).toBeGreaterThan(20);
  expect(used.filter((id) => !ids.has(id!))).toEqual([]);
});
