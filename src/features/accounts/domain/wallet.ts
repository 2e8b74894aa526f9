import type { RecordedEvent } from '../../../kernel/event.js';
import { type Fact, fact } from '../../../kernel/fact.js';
import { type Decoded, streamDecoderFor } from '../../../kernel/event-definition.js';
import { Problem } from '../../../kernel/problems.js';
import { type LINK_PROOFS, walletLinked, walletUnlinked } from './wallets.events.js';

/** The TRIS that a wallet belongs to, and how that is known. */
export interface Link {
  tris_id: string;
  proof: (typeof LINK_PROOFS)[number];
  /** The chain whose contract accepted the signature; null: signed by the key of the address, or not signed. */
  chain_id: number | null;
}

/** @param wallet an address in any case */
export function walletStream(wallet: string): string {
  return `wallet-${wallet.toLowerCase()}`;
}

const EVENTS = [walletLinked, walletUnlinked] as const;
const decode = streamDecoderFor(EVENTS);

/** Folds a `wallet-<address>` stream: the current link, or null. @throws Problem history_unreadable */
export function linkOf(history: readonly RecordedEvent[]): Link | null {
  return decode(history).reduce(evolve, null as Link | null);
}

function evolve(_link: Link | null, event: Decoded<(typeof EVENTS)[number]>): Link | null {
  switch (event.type) {
    case 'WalletLinked': {
      const { tris_id, proof, chain_id } = event.data;
      return { tris_id, proof, chain_id };
    }
    case 'WalletUnlinked':
      return null;
    default:
      return event satisfies never;
  }
}

/**
 * The TRIS that the proven holder of a wallet may act for. Only a link that the wallet signed counts. A contract's
 * signature counts only on its own chain: on another one somebody else may own the same address.
 */
export function trisActedFor(link: Link | null, chainId: number | null): string | null {
  return link?.proof === 'signed' && link.chain_id === chainId ? link.tris_id : null;
}

/**
 * A wallet belongs to one TRIS. A signed link replaces an asserted one; repeating a link changes nothing.
 * @throws Problem wallet_already_linked, which does not disclose the other TRIS
 */
export function decideLink(link: Link | null, wallet: string, wanted: Link): Fact[] {
  const linked = fact(walletLinked, { wallet: wallet.toLowerCase(), ...wanted });
  if (link === null) return [linked];
  const isSame = link.tris_id === wanted.tris_id;
  if (isSame && wanted.proof === 'asserted') return [];
  if (link.proof === 'signed') {
    if (isSame && link.chain_id === wanted.chain_id) return [];
    throw alreadyLinked();
  }
  if (isSame) return [linked];
  if (wanted.proof === 'asserted') throw alreadyLinked();
  return [...decideUnlink(link, wallet, 'displaced'), linked];
}

export function decideUnlink(link: Link, wallet: string, reason: 'unlinked' | 'displaced' = 'unlinked'): Fact[] {
  return [fact(walletUnlinked, { tris_id: link.tris_id, wallet: wallet.toLowerCase(), reason })];
}

export function alreadyLinked(): Problem {
  return new Problem('wallet_already_linked', 'The wallet is already linked; a wallet belongs to one TRIS at a time.');
}
