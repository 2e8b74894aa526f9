import { identityRow } from '../../projections/identities.js';
import { walletRow, walletsAssertedBy, walletsOf } from '../../projections/wallets.js';
import { RECORDED, linked, rowsAfter, unlinked } from './log.js';

const [ALICE, BOB] = ['tris:alice', 'tris:bob'];
const [ONE, TWO] = ['0x0000000000000000000000000000000000000001', '0x0000000000000000000000000000000000000002'];

const row = (tris_id: string, wallet: string, proof = 'signed', asserted_by: string | null = null) => ({
  tris_id,
  wallet,
  proof,
  chain_id: null,
  linked_at: Date.parse(RECORDED),
  asserted_by,
});

test('a TRIS has its wallets, and a wallet its TRIS', async () => {
  const rows = await rowsAfter([linked(ALICE, TWO), linked(ALICE, ONE)]);
  expect(rows.range(walletsOf(ALICE))).toEqual([
    { sort: ONE, value: row(ALICE, ONE) },
    { sort: TWO, value: row(ALICE, TWO) },
  ]);
  expect(rows.get(walletRow(ONE))).toEqual(row(ALICE, ONE));
  expect(rows.get(identityRow(ALICE))).toMatchObject({ wallets: [TWO, ONE], changed: 2, actions: 0 });
});

test('a signed link takes the place of an asserted one', async () => {
  const rows = await rowsAfter([
    linked(ALICE, ONE, 'asserted'),
    unlinked(ALICE, ONE, 'displaced'),
    linked(BOB, ONE),
    linked(BOB, TWO, 'asserted'),
    linked(BOB, TWO),
  ]);
  expect(rows.range(walletsOf(ALICE))).toEqual([]);
  expect(rows.range(walletsOf(BOB)).map(({ value }) => value)).toEqual([row(BOB, ONE), row(BOB, TWO)]);
  expect(rows.get(walletRow(ONE))).toEqual(row(BOB, ONE));
  expect(rows.get(identityRow(ALICE))).toMatchObject({ wallets: [] });
  expect(rows.get(identityRow(BOB))).toMatchObject({ wallets: [ONE, TWO] });
});

test('an organization has the wallets whose links it asserted, until a link ends or the wallet signs', async () => {
  const LENDER = 'tris:lender';
  const assertedRows = async (...more: Parameters<typeof rowsAfter>[0]) =>
    (await rowsAfter([linked(ALICE, ONE, 'asserted', LENDER), linked(ALICE, TWO, 'asserted'), ...more])).range(
      walletsAssertedBy(LENDER, ALICE),
    );
  expect(await assertedRows()).toEqual([{ sort: ONE, value: row(ALICE, ONE, 'asserted', LENDER) }]);
  expect(await assertedRows(unlinked(ALICE, ONE))).toEqual([]);
  expect(await assertedRows(linked(ALICE, ONE))).toEqual([]);
});

test('an unlinked wallet belongs to no TRIS', async () => {
  const rows = await rowsAfter([linked(ALICE, ONE), unlinked(ALICE, ONE)]);
  expect(rows.get(walletRow(ONE))).toBeUndefined();
  expect(rows.range(walletsOf(ALICE))).toEqual([]);
  expect(rows.get(identityRow(ALICE))).toMatchObject({ wallets: [], changed: 2 });
});
