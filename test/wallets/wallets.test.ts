import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { RefreshFamilies } from '../../src/features/accounts/refresh-families.js';
import { Signatures } from '../../src/features/accounts/signatures.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Answer, send } from '../http/client.js';
import { type Service, startService } from '../policies/service.fixture.js';
import {
  type Account,
  type Tokens,
  bearer,
  call,
  claim,
  codeOf,
  consent,
  newAccount,
  signIn,
  start,
} from '../sessions/wallet.js';

let service: Service;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeAll(async () => {
  folder = await temporaryFolder();
  const file = join(folder.path, 'keys.json');
  const keys = [
    { id: 'ops', scopes: ['identity:write', 'relay:write', 'ops'] },
    { id: 'bank', scopes: ['identity:write'], organization: 'tris:bank' },
    { id: 'shop', scopes: ['identity:write'], organization: 'tris:shop' },
    { id: 'relay', scopes: ['relay:write'] },
  ].map((key) => ({ ...key, sha256: createHash('sha256').update(key.id).digest('hex') }));
  writeFileSync(file, JSON.stringify(keys));
  service = await startService({ CREDENCE_API_KEYS: file });
});
afterAll(async () => {
  await service.close();
  await folder.remove();
});

type Headers = Record<string, string>;
const key = (id: string): Headers => ({ 'x-api-key': id });
const OPS = key('ops');
let serial = 0;
const newTris = () => `tris:somebody-${++serial}`;

const assert = (wallet: string, tris_id: string, headers = OPS) =>
  call(service, '/api/link-account', { wallet, tris_id }, headers);
const link = async (wallet: Account, tris: Tokens & { tris_id: string }, headers: Headers = {}) =>
  call(service, '/v1/wallets/link', await consent(service, wallet, tris.tris_id), { ...bearer(tris), ...headers });
const unlink = (wallet: string, headers: Headers) => call(service, '/v1/wallets/unlink', { wallet }, headers);
const walletsOf = async (trisId: string, headers: Headers, query = '', after?: Answer) => {
  const position = after && { 'credence-min-position': String(after.headers['credence-position']) };
  return send(service.port, 'GET', `/v1/wallets/${trisId}${query}`, { headers: { ...headers, ...position } });
};
const trisOf = async (wallet: Account): Promise<string | null> => (await signIn(service, wallet)).json.tris_id;

describe('the first sign-in', () => {
  test('may claim a TRIS of the wallet’s own; the next ones act for it', async () => {
    const wallet = newAccount();
    const session = await claim(service, wallet);
    expect(session.tris_id).toBe(`tris:${wallet.address.toLowerCase()}`);
    expect(await trisOf(wallet)).toBe(session.tris_id);
    expect((await claim(service, wallet)).tris_id).toBe(session.tris_id);
  });

  test('shows the claimed TRIS, and no other TRIS can be claimed', async () => {
    const wallet = newAccount();
    const own = `tris:${wallet.address.toLowerCase()}`;
    const { message } = await start(service, wallet.address, { purpose: 'claim', tris_id: own });
    expect(message).toContain(`\n\nSign in to Credence and make this wallet the identity ${own}.\n\n`);
    expect(message).toContain(`\nRequest ID: credence:claim:${own}`);
  });

  test('cannot claim with a wallet that belongs to another TRIS', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    expect(codeOf(await signIn(service, wallet, { purpose: 'claim' }))).toEqual([409, 'wallet_already_linked']);
    expect(await trisOf(wallet)).toBe(owner.tris_id);
  });
});

describe('a wallet that signs for it', () => {
  test('is linked in the session of the TRIS, and signs in to that TRIS from then on', async () => {
    const [owner, second, third] = [await claim(service, newAccount()), newAccount(), newAccount()];
    const answer = await link(second, owner);
    expect([answer.status, answer.json]).toEqual([
      200,
      { status: 'linked', wallet: second.address, tris_id: owner.tris_id },
    ]);
    // Its session speaks for the TRIS as the first one does.
    const other = (await signIn(service, second)).json as Tokens & { tris_id: string };
    expect(other.tris_id).toBe(owner.tris_id);
    const last = await link(third, other);
    const { json } = await walletsOf(owner.tris_id, bearer(owner), '', last);
    const linked = (wallet: string) => ({ wallet, proof: 'signed', chain_id: null, linked_at: expect.any(String) });
    const addresses = [owner.wallet, second.address, third.address];
    addresses.sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
    expect(json).toEqual({ tris_id: owner.tris_id, wallets: addresses.map(linked), next_cursor: null });
  });

  test('signs a message that names the TRIS and what it means', async () => {
    const { message } = await start(service, newAccount().address, { purpose: 'link', tris_id: 'did:web:alice' });
    expect(message).toContain(
      '\n\nLink this wallet to did:web:alice. Whoever signs in with it can then act for did:web:alice.\n\n',
    );
    expect(message).toContain('\nRequest ID: credence:link:did:web:alice');
  });

  test('linked again stays linked, and nothing is written', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const head = await service.stores.eventStore.head();
    expect((await link(wallet, owner)).status).toBe(200);
    expect(await service.stores.eventStore.head()).toBe(head);
  });

  test('a retry with the same Idempotency-Key gets the first answer, though its message is used up', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    const body = await consent(service, wallet, owner.tris_id);
    const headers = { ...bearer(owner), 'idempotency-key': 'link-1' };
    const first = await call(service, '/v1/wallets/link', body, headers);
    const again = await call(service, '/v1/wallets/link', body, headers);
    expect([again.status, again.json]).toEqual([200, first.json]);
    expect(again.headers['credence-position']).toBe(first.headers['credence-position']);
    expect(codeOf(await call(service, '/v1/wallets/link', body, bearer(owner)))).toEqual([401, 'nonce_used']);
  });

  test('a retry gets the first answer also if that changed nothing', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const body = await consent(service, wallet, owner.tris_id);
    const headers = { ...bearer(owner), 'idempotency-key': 'link-2' };
    const first = await call(service, '/v1/wallets/link', body, headers);
    const again = await call(service, '/v1/wallets/link', body, headers);
    expect([first.status, again.status, again.json]).toEqual([200, 200, first.json]);
    expect(again.headers['credence-position']).toBe(first.headers['credence-position']);
    const other = await consent(service, wallet, owner.tris_id);
    expect(codeOf(await call(service, '/v1/wallets/link', other, headers))).toEqual([422, 'idempotency_key_reused']);
  });

  test('is not linked by a session that has ended while its signature was verified', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    const signatures = service.app.get(Signatures, { strict: false });
    const judge = signatures.judge.bind(signatures);
    const body = await consent(service, wallet, owner.tris_id);
    jest.spyOn(signatures, 'judge').mockImplementationOnce(async (...args) => {
      await call(service, '/v1/tris/token/revoke', { refresh_token: owner.refresh_token });
      return judge(...args);
    });
    try {
      expect(codeOf(await call(service, '/v1/wallets/link', body, bearer(owner)))).toEqual([401, 'session_revoked']);
    } finally {
      jest.restoreAllMocks();
    }
    expect(await trisOf(wallet)).toBeNull();
  });

  test('is refused with a sign-in message, and with one that somebody else signed', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    const { message } = await start(service, wallet.address);
    const signature = await wallet.signMessage({ message });
    expect(codeOf(await call(service, '/v1/wallets/link', { message, signature }, bearer(owner)))).toEqual([
      401,
      'siwe_purpose',
    ]);
    const wish = await start(service, wallet.address, { purpose: 'link', tris_id: owner.tris_id });
    const forged = await newAccount().signMessage({ message: wish.message });
    const answer = await call(service, '/v1/wallets/link', { message: wish.message, signature: forged }, bearer(owner));
    expect(codeOf(answer)).toEqual([401, 'siwe_signature']);
    expect(await trisOf(wallet)).toBeNull();
  });

  test('is not linked in the session of another TRIS, of no TRIS, or without one', async () => {
    const [owner, stranger, wallet] = [
      await claim(service, newAccount()),
      await claim(service, newAccount()),
      newAccount(),
    ];
    const body = await consent(service, wallet, owner.tris_id);
    const homeless = (await signIn(service, newAccount())).json as Tokens;
    const own = (await signIn(service, wallet)).json as Tokens;
    for (const headers of [bearer(stranger), bearer(homeless), bearer(own), key('bank')]) {
      expect(codeOf(await call(service, '/v1/wallets/link', body, headers))).toEqual([403, 'forbidden']);
    }
    expect(codeOf(await call(service, '/v1/wallets/link', body))).toEqual([401, 'unauthorized']);
    expect(codeOf(await call(service, '/v1/wallets/link', body, key('relay')))).toEqual([403, 'forbidden']);
    // None of these used the message up.
    expect((await call(service, '/v1/wallets/link', body, bearer(owner))).status).toBe(200);
  });

  test('is linked by an operator’s key: the first wallet of a TRIS that has none', async () => {
    const [wallet, tris] = [newAccount(), newTris()];
    expect((await call(service, '/v1/wallets/link', await consent(service, wallet, tris), OPS)).status).toBe(200);
    expect(await trisOf(wallet)).toBe(tris);
  });

  test('of fifty concurrent requests to link it, one succeeds', async () => {
    const wallet = newAccount();
    const owners = await Promise.all(Array.from({ length: 50 }, () => claim(service, newAccount())));
    const bodies = await Promise.all(owners.map(({ tris_id }) => consent(service, wallet, tris_id)));
    const answers = await Promise.all(
      owners.map((owner, i) => call(service, '/v1/wallets/link', bodies[i], bearer(owner))),
    );
    const winners = answers.filter(({ status }) => status === 200);
    expect(winners).toHaveLength(1);
    expect(new Set(answers.filter(({ status }) => status !== 200).map((answer) => String(codeOf(answer))))).toEqual(
      new Set(['409,wallet_already_linked']),
    );
    expect(await trisOf(wallet)).toBe(winners[0]!.json.tris_id);
    const history = await service.stores.eventStore.readStream(`wallet-${wallet.address.toLowerCase()}`);
    expect(history.map(({ type }) => type)).toEqual(['WalletLinked']);
  });
});

describe('a link by a key alone', () => {
  test('has the answer of requirement 30, and is only asserted: no session acts for the TRIS', async () => {
    const [wallet, tris] = [newAccount(), newTris()];
    const answer = await assert(wallet.address, tris);
    expect([answer.status, answer.json]).toEqual([200, { status: 'linked' }]);
    const { json } = await walletsOf(tris, OPS, '', answer);
    expect(json.wallets).toEqual([
      { wallet: wallet.address, proof: 'asserted', chain_id: null, linked_at: expect.any(String) },
    ]);
    const session = (await signIn(service, wallet)).json as Tokens;
    expect(session.tris_id).toBeNull();
    expect(codeOf(await walletsOf(tris, bearer(session)))).toEqual([403, 'forbidden']);
    const other = await consent(service, newAccount(), tris);
    expect(codeOf(await call(service, '/v1/wallets/link', other, bearer(session)))).toEqual([403, 'forbidden']);
  });

  test('every spelling of the address is the same wallet; a wrong checksum is refused', async () => {
    const [{ address }, tris] = [newAccount(), newTris()];
    await assert(address, tris);
    expect((await assert(address.toLowerCase(), tris)).status).toBe(200);
    expect(codeOf(await assert(address.toLowerCase(), newTris()))).toEqual([409, 'wallet_already_linked']);
    const wrong = address.replace(/[a-f]/i, (letter) =>
      letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
    );
    expect(codeOf(await assert(wrong, tris))).toEqual([400, 'address_checksum']);
    expect(codeOf(await assert(`0X${address.slice(2)}`, tris))).toEqual([400, 'validation_failed']);
  });

  test('the conflict does not name the other TRIS', async () => {
    const [{ address }, secret] = [newAccount(), newTris()];
    await assert(address, secret);
    const head = await service.stores.eventStore.head();
    const answer = await assert(address, newTris(), { ...key('bank'), 'idempotency-key': 'x' });
    expect(codeOf(answer)).toEqual([409, 'wallet_already_linked']);
    expect(answer.text).not.toContain(secret);
    expect(await service.stores.eventStore.head()).toBe(head);
  });

  test('of fifty at once, one is written', async () => {
    const { address } = newAccount();
    const answers = await Promise.all(Array.from({ length: 50 }, () => assert(address, newTris())));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(49);
  });

  test('is displaced by a signed one, in one step; never the other way round', async () => {
    const [wallet, tris, owner] = [newAccount(), newTris(), await claim(service, newAccount())];
    await assert(wallet.address, tris);
    const answer = await link(wallet, owner);
    expect(answer.status).toBe(200);
    expect(await trisOf(wallet)).toBe(owner.tris_id);
    expect((await walletsOf(tris, OPS, '', answer)).json.wallets).toEqual([]);
    const history = await service.stores.eventStore.readStream(`wallet-${wallet.address.toLowerCase()}`);
    expect(history.map(({ type, data }) => [type, data['tris_id'], data['proof'] ?? data['reason']])).toEqual([
      ['WalletLinked', tris, 'asserted'],
      ['WalletUnlinked', tris, 'displaced'],
      ['WalletLinked', owner.tris_id, 'signed'],
    ]);
    expect(codeOf(await assert(wallet.address, tris))).toEqual([409, 'wallet_already_linked']);
  });

  test('to the same TRIS becomes a signed one', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await assert(wallet.address, owner.tris_id);
    const answer = await link(wallet, owner);
    expect(await trisOf(wallet)).toBe(owner.tris_id);
    const { json } = await walletsOf(owner.tris_id, bearer(owner), '', answer);
    expect(json.wallets.map(({ proof }: { proof: string }) => proof)).toEqual(['signed', 'signed']);
    // Asserting what is signed changes nothing.
    expect((await assert(wallet.address, owner.tris_id)).json).toEqual({ status: 'linked' });
    expect(await trisOf(wallet)).toBe(owner.tris_id);
  });

  test('does not keep the wallet from claiming its own TRIS', async () => {
    const wallet = newAccount();
    await assert(wallet.address, newTris());
    expect((await claim(service, wallet)).tris_id).toBe(`tris:${wallet.address.toLowerCase()}`);
  });

  test('requires a key with its scope', async () => {
    const { address } = newAccount();
    expect(codeOf(await assert(address, newTris(), key('relay')))).toEqual([403, 'forbidden']);
    expect(codeOf(await assert(address, newTris(), {}))).toEqual([401, 'unauthorized']);
  });
});

describe('/api/link-account in a session', () => {
  test('is not confused with an asserted link that another process wrote concurrently', async () => {
    const wallet = newAccount();
    const session = (await signIn(service, wallet)).json as Tokens;
    const tris = `tris:${wallet.address.toLowerCase()}`;
    await assert(wallet.address, tris);
    // As if the other process had been faster by a moment: what it wrote is seen by the append only.
    const { eventStore } = service.stores;
    const { readStream, append } = eventStore;
    let isBefore = true;
    jest.spyOn(eventStore, 'readStream').mockImplementation(async (stream, options) => {
      return isBefore && stream.startsWith('wallet-') ? [] : readStream.call(eventStore, stream, options);
    });
    jest.spyOn(eventStore, 'append').mockImplementation((...appended) => {
      isBefore = false;
      return append.apply(eventStore, appended);
    });
    try {
      expect((await assert(wallet.address, tris, bearer(session))).status).toBe(200);
    } finally {
      jest.restoreAllMocks();
    }
    expect(await trisOf(wallet)).toBe(tris);
  });

  test('does not link the wallet again if its link was ended meanwhile', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const session = (await signIn(service, wallet)).json as Tokens;
    const families = service.app.get(RefreshFamilies, { strict: false });
    const standingOf = families.standingOf.bind(families);
    jest.spyOn(families, 'standingOf').mockImplementationOnce(async (claimed) => {
      const found = await standingOf(claimed);
      const { status } = await call(
        service,
        '/v1/wallets/unlink',
        { wallet: wallet.address, reason_code: 'stolen' },
        OPS,
      );
      expect(status).toBe(200);
      return found;
    });
    try {
      expect(codeOf(await assert(wallet.address, owner.tris_id, bearer(session)))).toEqual([403, 'forbidden']);
    } finally {
      jest.restoreAllMocks();
    }
    expect(await trisOf(wallet)).toBeNull();
  });

  test('links the session’s wallet to its own TRIS, with the same effect as a claim', async () => {
    const wallet = newAccount();
    const session = (await signIn(service, wallet)).json as Tokens;
    const own = `tris:${wallet.address.toLowerCase()}`;
    const answer = await assert(wallet.address, own, bearer(session));
    expect([answer.status, answer.json]).toEqual([200, { status: 'linked' }]);
    expect(await trisOf(wallet)).toBe(own);
  });

  test('returns linked for a wallet that is already linked', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const session = (await signIn(service, wallet)).json as Tokens;
    expect((await assert(wallet.address, owner.tris_id, bearer(session))).json).toEqual({ status: 'linked' });
  });

  test('gives no access to a TRIS that has not agreed, and moves no wallet of others', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    const session = (await signIn(service, wallet)).json as Tokens;
    expect(codeOf(await assert(wallet.address, owner.tris_id, bearer(session)))).toEqual([403, 'forbidden']);
    expect(codeOf(await assert(newAccount().address, owner.tris_id, bearer(owner)))).toEqual([403, 'forbidden']);
    expect(await trisOf(wallet)).toBeNull();
  });
});

describe('unlinking', () => {
  test('by the session of the TRIS ends the wallet’s sessions at once', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const thief = (await signIn(service, wallet)).json as Tokens & { tris_id: string };
    const answer = await unlink(wallet.address, bearer(owner));
    expect([answer.status, answer.json]).toEqual([
      200,
      { status: 'unlinked', wallet: wallet.address, tris_id: owner.tris_id },
    ]);
    expect(codeOf(await link(newAccount(), thief))).toEqual([401, 'session_revoked']);
    expect(codeOf(await walletsOf(owner.tris_id, bearer(thief)))).toEqual([401, 'session_revoked']);
    expect(codeOf(await unlink(owner.wallet, bearer(thief)))).toEqual([401, 'session_revoked']);
    expect(await trisOf(wallet)).toBeNull();
    // And it is free for another.
    const other = await claim(service, newAccount());
    expect((await link(wallet, other)).status).toBe(200);
  });

  test('by the wallet’s own session: its own link, and asserted links of it', async () => {
    const [owner, wallet, other] = [await claim(service, newAccount()), newAccount(), newAccount()];
    await link(wallet, owner);
    expect((await unlink(wallet.address, bearer((await signIn(service, wallet)).json))).status).toBe(200);
    await assert(other.address, newTris());
    expect((await unlink(other.address, bearer((await signIn(service, other)).json))).status).toBe(200);
  });

  test('of an unlinked wallet, and of one that the session may not know, gets the same answer', async () => {
    const [owner, stranger] = [await claim(service, newAccount()), await claim(service, newAccount())];
    const none = await unlink(newAccount().address, bearer(stranger));
    const others = await unlink(owner.wallet, bearer(stranger));
    expect(codeOf(none)).toEqual([404, 'wallet_not_linked']);
    expect([others.status, others.json.detail]).toEqual([none.status, none.json.detail]);
  });

  test('by a key: only asserted links, and by an organization’s key only those that it asserted', async () => {
    const owner = await claim(service, newAccount());
    expect(codeOf(await unlink(owner.wallet, OPS))).toEqual([403, 'forbidden']);
    const { address } = newAccount();
    await assert(address, newTris(), key('bank'));
    expect(codeOf(await unlink(address, key('shop')))).toEqual([403, 'forbidden']);
    expect((await unlink(address, key('bank'))).status).toBe(200);
    expect(codeOf(await unlink(address, key('bank')))).toEqual([404, 'wallet_not_linked']);
    await assert(address, newTris(), key('bank'));
    expect((await unlink(address, OPS)).status).toBe(200);
  });

  test('repeated with its Idempotency-Key gets the first answer, also after a new link', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const headers = { ...bearer(owner), 'idempotency-key': 'unlink-1' };
    const first = await unlink(wallet.address, headers);
    await link(wallet, owner);
    const again = await unlink(wallet.address, headers);
    expect([again.status, again.json, again.headers['credence-position']]).toEqual([
      200,
      first.json,
      first.headers['credence-position'],
    ]);
    expect(await trisOf(wallet)).toBe(owner.tris_id);
  });

  test('repeated with the signature that it came with gets the first answer, though that can be used once', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const body = { wallet: wallet.address, ...(await consent(service, wallet, owner.tris_id, 'unlink')) };
    const headers = { ...bearer(owner), 'idempotency-key': 'unlink-signed' };
    const first = await call(service, '/v1/wallets/unlink', body, headers);
    const again = await call(service, '/v1/wallets/unlink', body, headers);
    expect([first.status, again.status, again.text]).toEqual([200, 200, first.text]);
  });
});

describe('the wallets of a TRIS', () => {
  test('are listed in pages', async () => {
    const tris = newTris();
    let last: Answer | undefined;
    for (let i = 0; i < 5; i++) last = await assert(newAccount().address, tris);
    const all = (await walletsOf(tris, OPS, '', last)).json.wallets.map(({ wallet }: { wallet: string }) => wallet);
    const paged: string[] = [];
    for (let cursor = ''; ;) {
      const { json } = await walletsOf(tris, OPS, `?limit=2${cursor && `&cursor=${cursor}`}`);
      paged.push(...json.wallets.map(({ wallet }: { wallet: string }) => wallet));
      if (json.next_cursor === null) break;
      cursor = json.next_cursor;
    }
    expect(paged).toEqual(all);
    expect(new Set(all).size).toBe(5);
    expect(codeOf(await walletsOf(tris, OPS, '?cursor=zzz'))).toEqual([400, 'validation_failed']);
  });

  test('are for its session and for keys, not for others', async () => {
    const [owner, stranger] = [await claim(service, newAccount()), await claim(service, newAccount())];
    expect(codeOf(await walletsOf(owner.tris_id, bearer(stranger)))).toEqual([403, 'forbidden']);
    expect(codeOf(await walletsOf(owner.tris_id, {}))).toEqual([401, 'unauthorized']);
    expect(codeOf(await walletsOf(owner.tris_id, key('relay')))).toEqual([403, 'forbidden']);
  });

  test('make the identity known, appear in its history and are counted in its report, now and as of then', async () => {
    const [owner, wallet] = [await claim(service, newAccount()), newAccount()];
    await link(wallet, owner);
    const last = await unlink(wallet.address, bearer(owner));
    const headers = { 'credence-min-position': String(last.headers['credence-position']) };
    const score = await service.get(`/v1/disc/score/${owner.tris_id}`, headers);
    expect([score.status, score.json.score, score.json.total_tct]).toEqual([200, 7, 0]);
    const history = await service.get(`/v1/disc/score/${owner.tris_id}/history`);
    expect(
      history.json.entries.map((entry: Record<string, unknown>) => [entry['event_type'], entry['metric']]),
    ).toEqual([
      ['WalletLinked', null],
      ['WalletLinked', null],
      ['WalletUnlinked', null],
    ]);
    const counts = [];
    for (const { position } of history.json.entries) {
      const report = await service.get(`/v1/disc/report/${owner.tris_id}?as_of_position=${position}`);
      counts.push(report.json.wallets_count);
    }
    expect(counts).toEqual([1, 2, 1]);
  });
});
