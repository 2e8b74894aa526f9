import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, streamDecoderFor } from '../../../kernel/event-definition.js';
import { Problem } from '../../../kernel/problems.js';
import { sessionsEnded, walletLinked, walletUnlinked } from './wallets.events.js';

/** The TRIS that a wallet belongs to, and how that is known. */
export type Link = Omit<Decoded<typeof walletLinked>['data'], 'wallet'>;

/** @param wallet an address in any case */
export const walletStream = (wallet: string): string => `wallet-${wallet.toLowerCase()}`;

const EVENTS = [walletLinked, walletUnlinked, sessionsEnded] as const;
const decode = streamDecoderFor(EVENTS);

/** Folds a `wallet-<address>` stream: the current link, or null. @throws Problem history_unreadable */
export const linkOf = (history: readonly RecordedEvent[]): Link | null =>
  decode(history).reduce(evolve, null as Link | null);

function evolve(link: Link | null, event: Decoded<(typeof EVENTS)[number]>): Link | null {
  switch (event.type) {
    case 'WalletLinked': {
      const { wallet: _, ...link } = event.data;
      return link;
    }
    case 'WalletUnlinked':
      return null;
    case 'SessionsEnded':
      return link;
    default:
      return event satisfies never;
  }
}

/**
 * How often the sessions of the wallet on a chain were ended, by its stream: a session is over once this has grown since
 * it began. Counted rather than timed, since clocks differ.
 * @param chainId null: sessions of the key of the address
 * @throws Problem history_unreadable
 */
export function endingsOf(history: readonly RecordedEvent[], chainId: number | null): number {
  let link = null as Link | null;
  let endings = 0;
  for (const event of decode(history)) {
    if (event.type === 'SessionsEnded') {
      if (event.data.reason === 'operator' || event.data.chain_id === chainId) endings++;
    } else if (event.type === 'WalletUnlinked' && event.data.reason === 'unlinked') {
      // An asserted link gave its sessions nothing.
      if (link?.proof === 'signed' && link.chain_id === chainId) endings++;
    }
    link = evolve(link, event);
  }
  return endings;
}

/** @param chainId the chain whose contract accepted the signature; null: the key of the address signed */
export function signedLink(trisId: string, chainId: number | null): Link {
  return { tris_id: trisId, proof: 'signed', chain_id: chainId, asserted_by: null };
}

/**
 * The TRIS that a wallet may claim for itself. That of a contract names its chain: on another one somebody else may hold
 * the same address.
 * @param chainId the chain of the contract; null: the key of the address
 */
export const ownTris = (wallet: string, chainId: number | null): string =>
  `tris:${chainId === null ? '' : `eip155:${chainId}:`}${wallet.toLowerCase()}`;

/**
 * Whether a wallet founded the TRIS that it is linked to: it claimed the TRIS, or linked itself to its own. Older
 * events name the TRIS of a contract without its chain.
 */
export const isFounder = (wallet: string, { tris_id, proof, chain_id }: Link): boolean =>
  proof === 'signed' && [ownTris(wallet, null), ownTris(wallet, chain_id)].includes(tris_id);

/**
 * Whether a key asserted the link, or another key of its organization. Of an older link, without an organization,
 * only the key itself is known.
 */
export function isAssertedBy(
  { name, organization }: { name: string; organization: string | null },
  { proof, asserted_by }: Link,
  history: readonly RecordedEvent[],
): boolean {
  if (proof !== 'asserted') return false;
  if (asserted_by !== null) return asserted_by === organization;
  return history.findLast(({ type }) => type === walletLinked.type)?.metadata.actor === name;
}

export function decideEndSessions(
  wallet: string,
  by: { reason: 'signed'; chain_id: number | null } | { reason: 'operator'; reason_code: string },
): Fact[] {
  const data = { chain_id: null, reason_code: null, ...by };
  return [fact(sessionsEnded, { wallet: wallet.toLowerCase(), ...data })];
}

/**
 * The TRIS that the proven holder of a wallet may act for. Only a link that the wallet signed counts. A contract's
 * signature counts only on its own chain: on another one somebody else may own the same address.
 */
export const trisActedFor = (link: Link | null, chainId: number | null): string | null =>
  link?.proof === 'signed' && link.chain_id === chainId ? link.tris_id : null;

/**
 * The TRIS that something counts for which a wallet has done, or may do, on a chain. A key controls its address on every
 * chain, a contract only on its own.
 */
export const trisOn = (link: Link | null, chainId: number): string | null =>
  trisActedFor(link, null) ?? trisActedFor(link, chainId);

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

export const alreadyLinked = (): Problem =>
  new Problem('wallet_already_linked', 'The wallet is already linked; a wallet belongs to one TRIS at a time.');
