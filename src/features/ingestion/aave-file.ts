import { type FieldError, Problem } from '../../kernel/problems.js';
import { type Action, splitMetric } from '../relay/domain/relay.js';
import { PROTOCOLS, chainPlatform } from './chain-events.js';

/** Chain ids by their names in data sets of Aave v2. */
const NETWORKS: Record<string, number> = { mainnet: 1, ethereum: 1, polygon: 137, avalanche: 43114 };

/** Pool events by their names in data sets of Aave v2. */
const EVENTS: Record<string, string> = {
  deposit: 'Deposit',
  redeemunderlying: 'Withdraw',
  borrow: 'Borrow',
  repay: 'Repay',
  liquidationcall: 'LiquidationCall',
};

const isAddress = (value: unknown) => typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value);

/**
 * Converts a line of an Aave v2 data set, `{userWallet, network, logId, timestamp, action, actionData}`, to the action
 * that the event would have become, for the wallet's own TRIS.
 * @throws Problem validation_failed with every wrong field
 */
export function aaveAction(line: unknown, now: number): Action {
  const { userWallet, network, logId, timestamp, action, actionData } = (line ?? {}) as Record<string, unknown>;
  const errors: FieldError[] = [];
  const check = (holds: boolean, field: string, must: string) => {
    if (!holds) errors.push({ pointer: `/${field}`, code: 'not_of_aave_v2', message: `${field} must be ${must}` });
  };
  const event = typeof action === 'string' && Object.hasOwn(EVENTS, action) ? EVENTS[action] : undefined;
  const chainId = typeof network === 'string' && Object.hasOwn(NETWORKS, network) ? NETWORKS[network] : undefined;
  check(isAddress(userWallet), 'userWallet', 'an address');
  check(chainId !== undefined, 'network', `one of ${Object.keys(NETWORKS).join(', ')}`);
  check(typeof logId === 'string' && /^[!-~]{1,100}$/.test(logId), 'logId', '1 to 100 printable ASCII characters');
  check(
    Number.isInteger(timestamp) && (timestamp as number) > 0 && (timestamp as number) * 1_000 <= now,
    'timestamp',
    'seconds since the epoch, not in the future',
  );
  // A logId names a transaction and a kind of event; the transaction may contain several of them.
  const { poolId = '', amount = '' } = (actionData ?? {}) as { poolId?: unknown; amount?: unknown };
  check(poolId === '' || isAddress(poolId), 'actionData/poolId', 'an address');
  check(typeof amount === 'string' && /^\d{0,40}$/.test(amount), 'actionData/amount', 'a whole number as a string');
  check(event !== undefined, 'action', `one of ${Object.keys(EVENTS).join(', ')}`);
  if (errors.length > 0) {
    throw new Problem('validation_failed', errors.map(({ message }) => message).join('; '), { errors });
  }
  const [, mapping] = Object.entries(PROTOCOLS['aave-v2']).find(([declared]) => declared.startsWith(`${event}(`))!;
  return {
    tris_id: `tris:${(userWallet as string).toLowerCase()}`,
    ...splitMetric(mapping.metric),
    criticality: mapping.criticality,
    platform_id: chainPlatform(chainId!),
    occurred_at: (timestamp as number) * 1_000,
    external_id: `aave-v2:${[logId, poolId, amount].join(':')}`,
    evidence_uri: null,
  };
}
