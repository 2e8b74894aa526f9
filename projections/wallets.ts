import { isOfLink } from './identity-events.js';
import { type Projection, keysOf, rowIn } from './projection.js';

/** A wallet of a TRIS, as listed. */
export interface WalletRow {
  tris_id: string;
  /** Address in lower case. */
  wallet: string;
  proof: 'signed' | 'asserted';
  /** The chain of the contract wallet that signed; null: the key of the address itself signed, or nobody did. */
  chain_id: number | null;
  /** ms since the epoch: when it got this proof. */
  linked_at: number;
  /** The organization that asserted the link, as far as it is known. */
  asserted_by: string | null;
}

/**
 * The wallets of each TRIS; `wallets.tris`: the TRIS of each wallet; `wallets.asserted`: the wallets of a TRIS whose
 * links an organization asserted. A wallet has one row in each, or none.
 */
export const wallets: Projection = {
  name: 'wallets',
  version: 2,
  views: ['wallets', 'wallets.tris', 'wallets.asserted'],
  share: (event) => (isOfLink(event) ? event.data.wallet : undefined),
  reads: (event) => (isOfLink(event) ? [walletRow(event.data.wallet)] : []),
  apply(event, rows) {
    if (!isOfLink(event)) return;
    const before = rows.get<WalletRow>(walletRow(event.data.wallet));
    if (before?.asserted_by != null) rows.delete(assertedRow(before.asserted_by, before));
    if (event.type === 'WalletLinked') {
      const { tris_id, wallet, proof, chain_id, asserted_by } = event.data;
      const row: WalletRow = { tris_id, wallet, proof, chain_id, linked_at: event.recorded_at, asserted_by };
      if (asserted_by !== null) rows.put(assertedRow(asserted_by, row), row);
      rows.put(rowIn(walletsOf(tris_id), wallet), row);
      rows.put(walletRow(wallet), row);
    } else {
      rows.delete(rowIn(walletsOf(event.data.tris_id), event.data.wallet));
      rows.delete(walletRow(event.data.wallet));
    }
  },
};

export const walletsOf = keysOf('wallets');

export function walletsAssertedBy(organization: string, trisId: string) {
  return { view: 'wallets.asserted', key: `${organization} ${trisId}` };
}

function assertedRow(organization: string, { tris_id, wallet }: WalletRow) {
  return rowIn(walletsAssertedBy(organization, tris_id), wallet);
}

export const walletRow = keysOf('wallets.tris');
