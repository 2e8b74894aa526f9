import type { RpcFailure } from '../accounts/json-rpc.js';

/**
 * What to do after a node has refused `eth_getLogs` over several blocks. `range`: ask for fewer blocks. `rate`: the
 * node wants fewer requests, so smaller ranges would make it worse. `final`: the same request will never be answered,
 * or nobody answers at all.
 */
export type RefusalKind = 'range' | 'rate' | 'final';

/** Always about the number of requests. */
const RATE =
  /rate[ -]?limit|\b(?:request|call) rate\b|too many requests|throttl|quota|\brequests? (?:per|limit|count)|\brps\b|\bper second\b|\/\s?s(?:ec(?:ond)?)?\b/i;
/** About the number of requests, unless the message is about blocks or results. */
const PLAN = /\b(?:capacity|credits?|compute units?|cu limit|usage|daily|monthly)\b/i;
const SIZE = /\b(?:blocks?|ranges?|epochs?|results?|logs|response size)\b/i;
const DENIED = /unauthori[sz]ed|forbidden|not authori[sz]ed|authenticat|access denied|\bapi[ -]?key\b/i;

/**
 * Providers use different codes and messages, and new ones. Whatever is not known to be something else is taken for a
 * range that is too large: halving it ends at one block, after a dozen requests at most.
 */
export function refusalKind({ reason, code, status, message }: RpcFailure): RefusalKind {
  if (status === 429 || code === 429 || RATE.test(message)) return 'rate';
  if (PLAN.test(message) && !SIZE.test(message)) return 'rate';
  if (status === 401 || status === 403 || code === -32601) return 'final';
  if (reason === 'timeout' || reason === 'size') return 'range';
  // No status: there was no answer at all.
  if (reason === 'failed') return status !== undefined && isOverload(status) ? 'range' : 'final';
  return DENIED.test(message) ? 'final' : 'range';
}

/** Whether a node that answers with this status may answer a smaller question. */
const isOverload = (status: number): boolean => status === 408 || status === 413 || status >= 500;
