import type { CommandRequest } from '../../commands/context.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { type Problem, refusal } from '../../kernel/problems.js';
import type { WithdrawActionsDto } from './withdraw-many.dto.js';
import { ApplyWithdrawals, FindWithdrawals } from './withdraw-many.handlers.js';

/** @throws Problem validation_failed */
export function toCommand(
  { apply, dry_run, reason, ...filter }: WithdrawActionsDto,
  now: number,
  request: CommandRequest,
): FindWithdrawals | ApplyWithdrawals {
  const { action_id, key_id, platform_id, recorded_from, recorded_to } = filter;
  if (apply !== undefined) {
    const others = { dry_run, reason, ...filter };
    const other = Object.entries(others).find(([, value]) => value !== undefined);
    if (other) throw refused(other[0], 'exclusive', `${other[0]} is that of the dry run: leave it out beside apply`);
    return new ApplyWithdrawals(apply, request.of({ apply }));
  }
  if (dry_run !== true)
    throw refused('dry_run', 'dry_run_first', 'dry_run must be true; then send its job_id as apply');
  if (reason === undefined) throw refused('reason', 'required', 'reason is required for a dry run');
  if (action_id === undefined && key_id === undefined && platform_id === undefined) {
    throw refused('key_id', 'required', 'action_id, key_id or platform_id is required');
  }
  const to = recorded_to === undefined ? now : parseTimestamp(recorded_to)!;
  if (to > now) throw refused('recorded_to', 'in_the_future', 'recorded_to must not be in the future');
  const from = recorded_from === undefined ? undefined : parseTimestamp(recorded_from)!;
  if (from !== undefined && from > to) {
    throw refused('recorded_from', 'empty_range', 'recorded_from must not be after recorded_to');
  }
  const set = {
    action_id: action_id ?? null,
    key_id: key_id ?? null,
    platform_id: platform_id ?? null,
    recorded_from: from ?? null,
  };
  // Without `recorded_to`, the time of the request is the server's: a retry means the same.
  const hashed = { ...set, recorded_to: recorded_to ?? null, reason };
  return new FindWithdrawals({ ...set, recorded_to: to }, reason, request.of(hashed));
}

function refused(name: string, code: string, message: string): Problem {
  return refusal([{ pointer: `/${name}`, code, message }]);
}
