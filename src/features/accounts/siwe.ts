import type { SiweMessage } from 'siwe';
import { CLOCK_SKEW_MS } from '../../kernel/clock.js';
import { type Problem, type ProblemCode, fieldProblem } from '../../kernel/problems.js';
import { ownTris } from './domain/wallet.js';

/** Sign-in messages (EIP-4361): how they are composed, and what is wrong with one that differs from the issued one. */

export const PURPOSES = ['sign_in', 'link', 'claim', 'unlink', 'end_sessions'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** How long a message stays valid, ms. */
export const LIFETIME_MS = 10 * 60_000;
/** UTF-16 units; issued messages have about 500. Also limits the parser's input: it takes 1 ms per 10 lines. */
export const MAX_MESSAGE_LENGTH = 4_096;
const MAX_LINES = 20;

/** What a message asks a wallet to confirm. */
export interface ChallengeRequest {
  /** EIP-55. */
  address: string;
  chain_id: number;
  purpose: Purpose;
  /** The TRIS to link to or to claim; null when signing in, and for a claim of whichever id fits the signature. */
  tris_id: string | null;
}

/** A message that was issued and waits for its signature. */
export interface Challenge extends ChallengeRequest {
  nonce: string;
  message: string;
  /** ms since the epoch. */
  expires_at: number;
}

/** What is known of the nonce of a message that differs from the one issued with it. */
interface Issued {
  used: boolean;
  isFor(address: string): boolean;
  isOn(chainId: number): boolean;
}

/** Loaded when first needed: it would make the start 1.5 times as long. */
const library = () => import('siwe');

/** Composes the message. @param url of the service: its authority is the domain */
export async function compose(request: ChallengeRequest, url: string, nonce: string, now: number): Promise<string> {
  const { address, chain_id, purpose, tris_id } = request;
  const { SiweMessage } = await library();
  return new SiweMessage({
    domain: new URL(url).host,
    address,
    statement: STATEMENTS[purpose](request),
    uri: url,
    version: '1',
    chainId: chain_id,
    nonce,
    issuedAt: new Date(now).toISOString(),
    expirationTime: new Date(now + LIFETIME_MS).toISOString(),
    requestId: ['credence', purpose, ...(tris_id === null ? [] : [tris_id])].join(':'),
  }).prepareMessage();
}

/** What a wallet shows its owner. No line breaks and no text chosen by the client. */
const STATEMENTS: Record<Purpose, (request: ChallengeRequest) => string> = {
  sign_in: () => 'Sign in to Credence.',
  claim: ({ address, chain_id, tris_id }) => {
    const id = tris_id ?? `${ownTris(address, null)}, or ${ownTris(address, chain_id)} if it is a contract`;
    return `Sign in to Credence and make this wallet the identity ${id}.`;
  },
  unlink: ({ tris_id }) => `End the link of this wallet to ${tris_id}, and all its sessions.`,
  end_sessions: () => 'End all sessions of this wallet.',
  link: ({ tris_id }) => `Link this wallet to ${tris_id}. Whoever signs in with it can then act for ${tris_id}.`,
};

/** Hexadecimal digits. */
export const NONCE_LENGTH = 64;
const NONCE = /^Nonce: ([0-9a-f]{64})$/m;
/** The nonce of a message, if it has the form of those issued here. */
export const nonceOf = (message: string): string | undefined => NONCE.exec(message)?.[1];

/** Whether a message says that it is for a claim; only one that was issued as such is taken for one. */
export const isClaim = (message: string): boolean => /^Request ID: credence:claim(?::|$)/m.test(message);

const REQUEST_ID = /^credence:([a-z_]+)(?::(.+))?$/;

/** Reads back a message that `compose` made. */
export function challengeIn(message: string, nonce: string): Challenge {
  const lines = message.split('\n');
  const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))!.slice(name.length + 2);
  const [, purpose, tris_id = null] = REQUEST_ID.exec(field('Request ID'))!;
  return {
    address: lines[1]!,
    chain_id: Number(field('Chain ID')),
    purpose: purpose as Purpose,
    tris_id,
    nonce,
    message,
    expires_at: Date.parse(field('Expiration Time')),
  };
}

/**
 * What is wrong with a message that is not identical to the issued one: its first fault in the order below. Parses at
 * most 20 lines.
 * @param issued of its nonce; undefined if that was not issued here
 */
export async function faultOf(message: string, issued: Issued | undefined, url: string, now: number): Promise<Problem> {
  const lines = message.split('\n', MAX_LINES + 1);
  const resources = lines.includes('Resources:');
  if (lines.length > MAX_LINES) return resources ? withResources() : malformed(`it has more than ${MAX_LINES} lines`);
  let parsed: SiweMessage;
  try {
    parsed = new (await library()).SiweMessage(message);
  } catch (error) {
    // The parser's own message, unless it prints its state.
    const [reason = ''] = String((error as Error).message).split('\n', 1);
    if (reason.includes('{')) return malformed('a part is missing, duplicated, out of place or malformed');
    if (!reason.includes('EIP-55')) return malformed(reason.slice(0, 100));
    return no('address_checksum', 'The address in the message must have its EIP-55 checksum, as it was issued.');
  }
  const { domain, uri, address, chainId, issuedAt, notBefore, expirationTime } = parsed;
  const expected = new URL(url).host;
  if (domain !== expected) return no('siwe_domain', `The message is for ${domain}; this service is ${expected}.`);
  if (uri !== url) return no('siwe_uri', `The message is for ${uri}; this service is at ${url}.`);
  const from = Date.parse(issuedAt ?? '');
  if (from > now + CLOCK_SKEW_MS || Date.parse(notBefore ?? '') > now) {
    const time = new Date(now).toISOString();
    return no('siwe_not_yet_valid', `The message is not valid yet; the server's time is ${time}.`);
  }
  if (Date.parse(expirationTime ?? '') <= now) return expired();
  if (!(from >= now - LIFETIME_MS)) {
    return no('siwe_too_old', `A message must be signed and sent within ${LIFETIME_MS / 60_000} minutes.`);
  }
  if (!issued) return no('siwe_nonce_unknown', 'The nonce was not issued here. Start again for a new one.');
  if (issued.used) return nonceUsed();
  if (!issued.isFor(address)) return no('siwe_address', 'The nonce was issued for another address.');
  if (!issued.isOn(chainId)) return no('siwe_chain', `The nonce was issued for another chain than ${chainId}.`);
  if (resources) return withResources();
  return no('siwe_changed', 'The message differs from the one issued for its nonce. Sign that one unchanged.');
}

export const expired = (): Problem => no('siwe_expired', 'The message has expired. Start again for a new one.');
export const nonceUsed = (): Problem => no('nonce_used', 'The nonce was used before. Start again for a new one.');

const withResources = (): Problem => no('siwe_resources', 'The message lists resources; issued messages have none.');
const malformed = (reason: string): Problem => no('siwe_malformed', `The message does not follow EIP-4361: ${reason}.`);
const no = (code: ProblemCode, detail: string) => fieldProblem('/message', code, detail);
