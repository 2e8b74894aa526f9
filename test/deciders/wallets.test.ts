import {
  type Link,
  decideLink,
  decideUnlink,
  endingsOf,
  isFounder,
  linkOf,
  trisActedFor,
} from '../../src/features/accounts/domain/wallet.js';
import { type Given, linked, logOf, unlinked } from '../projections/log.js';

const [ALICE, BOB] = ['tris:alice', 'tris:bob'];
const WALLET = '0xabcdef0000000000000000000000000000000001';
const after = (...events: Given[]) => linkOf(logOf(events));
const signed = (tris_id: string, chain_id: number | null = null): Link => ({
  tris_id,
  proof: 'signed',
  chain_id,
  asserted_by: null,
});
const asserted = (tris_id: string): Link => ({ tris_id, proof: 'asserted', chain_id: null, asserted_by: null });
const decided = (given: Link | null, wanted: Link) =>
  decideLink(given, WALLET, wanted).map(({ type, data }) => [type, data['tris_id'], data['proof'] ?? data['reason']]);

test('a link is determined by the last event of its stream', () => {
  expect(after()).toBeNull();
  expect(after(linked(ALICE, WALLET))).toEqual(signed(ALICE));
  expect(after(linked(ALICE, WALLET), unlinked(ALICE, WALLET))).toBeNull();
  expect(after(linked(ALICE, WALLET, 'asserted'), unlinked(ALICE, WALLET, 'displaced'), linked(BOB, WALLET))).toEqual(
    signed(BOB),
  );
});

test('a wallet has no known owner if its stream cannot be read', () => {
  expect(() => after(linked(ALICE, WALLET, 'rumoured'))).toThrow(/cannot be read/);
});

test.each<[string, Link | null, Link, unknown[]]>([
  ['a free wallet is linked', null, signed(ALICE), [['WalletLinked', ALICE, 'signed']]],
  ['a free wallet is asserted', null, asserted(ALICE), [['WalletLinked', ALICE, 'asserted']]],
  ['the same link changes nothing', signed(ALICE), signed(ALICE), []],
  ['asserting what is asserted changes nothing', asserted(ALICE), asserted(ALICE), []],
  ['asserting what is signed changes nothing', signed(ALICE), asserted(ALICE), []],
  ['signing what is asserted makes it signed', asserted(ALICE), signed(ALICE), [['WalletLinked', ALICE, 'signed']]],
  [
    'a signed link displaces an asserted one',
    asserted(ALICE),
    signed(BOB),
    [
      ['WalletUnlinked', ALICE, 'displaced'],
      ['WalletLinked', BOB, 'signed'],
    ],
  ],
])('%s', (_what, given, wanted, events) => {
  expect(decided(given, wanted)).toEqual(events);
});

test.each<[string, Link, Link]>([
  ['a signed link by another signed one', signed(ALICE), signed(BOB)],
  ['a signed link by an asserted one', signed(ALICE), asserted(BOB)],
  ['an asserted link by another asserted one', asserted(ALICE), asserted(BOB)],
  ['a link signed on one chain by one from another', signed(ALICE, 1), signed(ALICE, 10)],
  ['a link signed by a key by a contract’s', signed(ALICE), signed(ALICE, 1)],
])('%s is not replaced', (_what, given, wanted) => {
  expect(() => decided(given, wanted)).toThrow(expect.objectContaining({ code: 'wallet_already_linked' }));
});

test('the log contains the address in lower case', () => {
  const mixed = WALLET.replace('abcdef', 'AbCdEf');
  expect(decideLink(null, mixed, signed(ALICE))[0]!.data['wallet']).toBe(WALLET);
  expect(decideUnlink(signed(ALICE), mixed)[0]!.data).toEqual({ tris_id: ALICE, wallet: WALLET, reason: 'unlinked' });
});

test.each<[Link | null, number | null, string | null]>([
  [null, null, null],
  [signed(ALICE), null, ALICE],
  [asserted(ALICE), null, null],
  [signed(ALICE, 1), 1, ALICE],
  [signed(ALICE, 1), 10, null],
  [signed(ALICE, 1), null, null],
  [signed(ALICE), 1, null],
])('of %j whoever is vouched for by %j acts for %j', (link, chainId, trisId) => {
  expect(trisActedFor(link, chainId)).toBe(trisId);
});

const onChain = (chain_id: number): Given => {
  const event = linked(ALICE, WALLET);
  return { ...event, data: { ...event.data, chain_id } };
};
const ended = (reason: 'signed' | 'operator', chain_id: number | null = null): Given => ({
  type: 'SessionsEnded',
  data: { wallet: WALLET, reason, chain_id, reason_code: null },
});

test.each<[string, Given[], ends: (number | null)[]]>([
  ['unlinking what the key linked', [linked(ALICE, WALLET), unlinked(ALICE, WALLET)], [null]],
  ['unlinking what a contract linked', [onChain(10), unlinked(ALICE, WALLET)], [10]],
  ['unlinking what was asserted', [linked(ALICE, WALLET, 'asserted'), unlinked(ALICE, WALLET)], []],
  ['a link that is displaced', [linked(ALICE, WALLET, 'asserted'), unlinked(ALICE, WALLET, 'displaced')], []],
  ['the holder of the key', [ended('signed')], [null]],
  ['the holder of a contract', [ended('signed', 10)], [10]],
  ['an operator', [ended('operator')], [null, 1, 10]],
])('%s: which sessions that ends', (_what, events, ends) => {
  const chains = [null, 1, 10];
  expect(chains.filter((chain) => endingsOf(logOf(events), chain) === 1)).toEqual(ends);
});

test.each<[Link, boolean]>([
  [signed(`tris:${WALLET}`), true],
  [signed(`tris:eip155:10:${WALLET}`, 10), true],
  // As older events name the TRIS of a contract.
  [signed(`tris:${WALLET}`, 10), true],
  [signed(`tris:eip155:1:${WALLET}`, 10), false],
  [signed(`tris:eip155:10:${WALLET}`), false],
  [asserted(`tris:${WALLET}`), false],
  [signed(ALICE), false],
])('whether a wallet founded the TRIS of its link %j: %s', (link, expected) => {
  expect(isFounder(WALLET, link)).toBe(expected);
});
