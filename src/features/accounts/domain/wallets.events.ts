import { defineEvent, nullable, oneOf, text, wholeNumber } from '../../../kernel/event-definition.js';

/** How a link is known: the wallet signed for it, or an API key asserted it. */
export const LINK_PROOFS = ['signed', 'asserted'] as const;

/** A wallet belongs to a TRIS from now on. Stream `wallet-<address>`, the only record of a link. */
export const walletLinked = defineEvent(
  'WalletLinked',
  {
    tris_id: text,
    /** Address in lower case. */
    wallet: text,
    proof: oneOf(LINK_PROOFS),
    /** The chain whose contract accepted the signature; null: signed by the key of the address, or not signed. */
    chain_id: nullable(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
    /** The organization whose key asserted the link; null: an operator's key did, the wallet signed, or not recorded. */
    asserted_by: nullable(text),
  },
  // The first schema names only the key.
  { schema: 2, upcasters: { 1: (data) => ({ ...data, asserted_by: null }) } },
);

/**
 * The sessions of the wallet have ended, all that began before. Same stream, since a WalletUnlinked ends them as well,
 * unless the link was displaced.
 */
export const sessionsEnded = defineEvent('SessionsEnded', {
  wallet: text,
  /** `signed`: the holder of the wallet asked with a signature. `operator`: an operator did, for every chain. */
  reason: oneOf(['signed', 'operator']),
  /** Of a holder: the chain whose contract accepted the signature; null: the key of the address signed. */
  chain_id: nullable(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
  /** Of an operator. */
  reason_code: nullable(text),
});

/** The link has ended. Same stream. */
export const walletUnlinked = defineEvent('WalletUnlinked', {
  tris_id: text,
  wallet: text,
  /** `displaced`: a signed link replaced an asserted one. */
  reason: oneOf(['unlinked', 'displaced']),
});
