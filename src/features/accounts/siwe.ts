import type { SiweMessage } from 'siwe';
import { Problem, type ProblemCode } from '../../kernel/problems.js';

/** Sign-in messages (EIP-4361): what wallets are asked to sign, and what is wrong with one that is not that. */

export const PURPOSES = ['sign_in', 'link', 'claim'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** How long a message may be signed and sent, ms. */
export const LIFETIME_MS = 10 * 60_000;
/** How far ahead of ours a clock may be. */
const CLOCK_SKEW_MS = 60_000;
/** UTF-16 units; ours have some 500. Also bounds what the parser is given, which takes its time (1 ms per 10 lines). */
export const MAX_MESSAGE_LENGTH = 4_096;
const MAX_LINES = 20;

/** What a message asks a wallet to agree to. */
export interface Wish {
  /** EIP-55. */
  address: string;
  chain_id: number;
  purpose: Purpose;
  /** The TRIS to link to or to claim; null when signing in. */
  tris_id: string | null;
}

/** A wish that was put into words, and waits for its signature. */
export interface Challenge extends Wish {
  message: string;
  /** ms since the epoch. */
  expires_at: number;
  used: boolean;
}

/** Not loaded before it is needed: it takes as long as half the rest of a start. */
const library = () => import('siwe');

/** The message of a wish. @param url where the service is: its authority is the domain */
export async function compose(wish: Wish, url: string, nonce: string, now: number): Promise<string> {
  const { address, chain_id, purpose, tris_id } = wish;
  const { SiweMessage } = await library();
  return new SiweMessage({
    domain: new URL(url).host,
    address,
    statement: STATEMENTS[purpose](tris_id ?? ''),
    uri: url,
    version: '1',
    chainId: chain_id,
    nonce,
    issuedAt: new Date(now).toISOString(),
    expirationTime: new Date(now + LIFETIME_MS).toISOString(),
    requestId: ['credence', purpose, ...(tris_id === null ? [] : [tris_id])].join(':'),
  }).prepareMessage();
}

/** What a wallet shows its owner; no line breaks, and nothing that a client can put its own words into. */
const STATEMENTS: Record<Purpose, (trisId: string) => string> = {
  sign_in: () => 'Sign in to Credence.',
  claim: (trisId) => `Sign in to Credence and make this wallet the identity ${trisId}.`,
  link: (trisId) => `Link this wallet to ${trisId}. Whoever signs in with it can then act for ${trisId}.`,
};

const NONCE = /^Nonce: ([0-9a-f]{32})$/m;
/** The nonce of a message that may be ours. */
export function nonceOf(message: string): string | undefined {
  return NONCE.exec(message)?.[1];
}

/**
 * What is wrong with a message that is not, to the letter, the one that was given out; its first fault in the order
 * below. Reads at most 20 lines and no signature.
 * @param challenge what its nonce was given out for, if it was
 */
export async function faultOf(
  message: string,
  challenge: Challenge | undefined,
  url: string,
  now: number,
): Promise<Problem> {
  const lines = message.split('\n', MAX_LINES + 1);
  const resources = lines.includes('Resources:');
  if (lines.length > MAX_LINES) {
    return resources ? withResources() : malformed(`it has more than ${MAX_LINES} lines`);
  }
  let parsed: SiweMessage;
  try {
    parsed = new (await library()).SiweMessage(message);
  } catch (error) {
    // The parser's own words, unless it prints its state.
    const [reason = ''] = String((error as Error).message).split('\n', 1);
    if (reason.includes('{')) return malformed('a part is missing, stands twice or elsewhere, or is not of its form');
    if (!reason.includes('EIP-55')) return malformed(reason.slice(0, 100));
    return no('address_checksum', 'The address in the message must have its EIP-55 checksum, as it was given out.');
  }
  const { domain, uri, address, chainId, issuedAt, notBefore, expirationTime } = parsed;
  const expected = new URL(url).host;
  if (domain !== expected) return no('siwe_domain', `The message is for ${domain}; this service is ${expected}.`);
  if (uri !== url) return no('siwe_uri', `The message is for ${uri}; this service is at ${url}.`);
  const issued = Date.parse(issuedAt ?? '');
  if (issued > now + CLOCK_SKEW_MS || Date.parse(notBefore ?? '') > now) {
    return no('siwe_not_yet_valid', `It is ${new Date(now).toISOString()} here, and the message counts from later on.`);
  }
  if (Date.parse(expirationTime ?? '') <= now) return expired();
  if (!(issued >= now - LIFETIME_MS)) {
    return no('siwe_too_old', `A message is to be signed and sent within ${LIFETIME_MS / 60_000} minutes.`);
  }
  if (!challenge) {
    return no('siwe_nonce_unknown', 'The nonce was not given out here, or too long ago; start again for a new one.');
  }
  if (challenge.used) return nonceUsed();
  if (address !== challenge.address) return no('siwe_address', 'The nonce was given out for another address.');
  if (chainId !== challenge.chain_id) {
    return no('siwe_chain', `The nonce was given out for chain ${challenge.chain_id}, not ${chainId}.`);
  }
  if (resources) return withResources();
  return no('siwe_changed', 'The message is not the one that was given out for its nonce; sign that, to the letter.');
}

export function expired(): Problem {
  return no('siwe_expired', 'The message has expired; start again for a new one.');
}
export function nonceUsed(): Problem {
  return no('nonce_used', 'The nonce was used before; start again for a new one.');
}

function withResources(): Problem {
  return no('siwe_resources', 'The message lists resources; none was given out with any.');
}
function malformed(reason: string): Problem {
  return no('siwe_malformed', `The message is not of the form of EIP-4361: ${reason}.`);
}
const no = (code: ProblemCode, detail: string) =>
  new Problem(code, detail, { errors: [{ pointer: '/message', code, message: detail }] });
