import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { type CommandContext, internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { signedLink } from '../../src/features/accounts/domain/wallet.js';
import { WalletLinks } from '../../src/features/accounts/wallet-links.js';
import { UnlinkWallet, UnlinkWalletHandler } from '../../src/features/accounts/wallets.handlers.js';
import { Platforms } from '../../src/features/organizations/platforms.js';
import { closeStores, openStores } from '../../src/stores/open.js';

/** Commands that another one overtakes between their first look and their append. */

const WALLET = '0xabcdef0000000000000000000000000000000001';
let folder: string;
let stores: Awaited<ReturnType<typeof openStores>>;
let writer: Writer;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-overtaken-'));
  stores = await openStores(folder, Date.now);
  writer = new Writer(stores.eventStore, Date.now);
});
afterEach(async () => {
  await closeStores(stores);
  await rm(folder, { recursive: true, force: true });
});

const context = (body: string): CommandContext => ({
  actor: internalActor('cli'),
  correlation_id: 'test',
  idempotency: null,
  body_hash: body.padEnd(64, '0'),
});

test('of two organizations that register a platform at once, one owns it and the other is refused', async () => {
  const platforms = new Platforms(writer);
  const register = async (org: string) => {
    await platforms.refuseIfTaken('lender', org, '/platform_id');
    return platforms.register('lender', org, context(org), '/platform_id');
  };
  const [first, second] = await Promise.allSettled([register('tris:a'), register('tris:b')]);
  expect(first).toMatchObject({ status: 'fulfilled', value: { own: true } });
  expect(second).toMatchObject({ status: 'rejected', reason: { code: 'platform_already_registered' } });
  expect(await platforms.ownerOf('lender')).toBe('tris:a');
});

test('a link that replaces the one to be ended is judged before it is ended, too', async () => {
  const links = new WalletLinks(writer, stores.eventStore);
  await links.link(
    WALLET,
    { tris_id: 'tris:a', proof: 'asserted', chain_id: null, asserted_by: 'tris:a' },
    context('a'),
  );
  const { idempotency } = writer;
  const claim = idempotency.claim.bind(idempotency);
  jest.spyOn(idempotency, 'claim').mockImplementationOnce(async (...args) => {
    // The first look finds the link that the organization may end.
    await claim(...args);
    await links.link(WALLET, signedLink('tris:b', null), context('b'));
  });
  const handler = new UnlinkWalletHandler({} as never, {} as never, {} as never, writer);
  const actor = { ...internalActor('key:a'), organization: 'tris:a' };
  const keyed = { ...context('unlink'), actor, idempotency: '1'.repeat(64) };
  const unlink = new UnlinkWallet({ wallet: WALLET, consent: null, reasonCode: null, context: keyed });
  await expect(handler.execute(unlink)).rejects.toMatchObject({ code: 'forbidden' });
  expect(await links.of(WALLET)).toEqual(signedLink('tris:b', null));
});
