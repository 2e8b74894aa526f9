import type { Projection } from './projection.js';

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
}

/** The wallets of each TRIS, and `wallets.tris`: the TRIS of each wallet. A wallet has one row in each, or none. */
export const wallets: Projection = {
  name: 'wallets',
  version: 1,
  views: ['wallets', 'wallets.tris'],
  share: {
    ofEvent: (event) =>
      event.type === 'WalletLinked' || event.type === 'WalletUnlinked' ? event.data.wallet : undefined,
    ofRow: ({ view, key, sort }) => (view === 'wallets' ? sort : key),
  },
  reads: () => [],
  apply(event, rows) {
    if (event.type === 'WalletLinked') {
      const { tris_id, wallet, proof, chain_id } = event.data;
      const row: WalletRow = { tris_id, wallet, proof, chain_id, linked_at: event.recorded_at };
      rows.put({ ...walletsOf(tris_id), sort: wallet }, row);
      rows.put(walletRow(wallet), row);
    } else if (event.type === 'WalletUnlinked') {
      rows.delete({ ...walletsOf(event.data.tris_id), sort: event.data.wallet });
      rows.delete(walletRow(event.data.wallet));
    }
  },
};

export function walletsOf(trisId: string) {
  return { view: 'wallets', key: trisId };
}

export function walletRow(wallet: string) {
  return { view: 'wallets.tris', key: wallet };
}
