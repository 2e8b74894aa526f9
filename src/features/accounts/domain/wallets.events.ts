import { defineEvent, nullable, oneOf, text, wholeNumber } from '../../../kernel/event-definition.js';

/** How a link is known: the wallet signed for it, or a key said so. */
export const LINK_PROOFS = ['signed', 'asserted'] as const;

/** A wallet belongs to a TRIS from now on. Stream `wallet-<address>`, the only place of a link. */
export const walletLinked = defineEvent('WalletLinked', {
  tris_id: text,
  /** Address in small letters. */
  wallet: text,
  proof: oneOf(LINK_PROOFS),
  /** The chain whose contract signed; null: the key of the address itself, or nobody. */
  chain_id: nullable(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
});

/** It no longer does. Same stream. */
export const walletUnlinked = defineEvent('WalletUnlinked', {
  tris_id: text,
  wallet: text,
  /** `displaced`: a signed link took the place of one that was only asserted. */
  reason: oneOf(['unlinked', 'displaced']),
});
