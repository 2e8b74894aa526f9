import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';
import { KEY_ID } from '../../credentials/api-keys.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { refusalOf } from '../../kernel/problems.js';
import { IsPlatformId, IsTimestamp, IsUuid, Matches } from '../../http/fields.js';
import { RATINGS, type Rating } from '../../scoring/model.js';
import { REASONS, type Reason } from '../relay/domain/relay.events.js';
import type { SetFilter } from './withdrawal-sets.js';

/** Either a dry run, which finds a set of actions, or the id of one, whose set is then withdrawn. */
export class WithdrawActionsDto {
  /** Only this action. */
  @IsOptional()
  @IsUuid()
  action_id?: string;

  /** Only actions that this API key relayed. */
  @IsOptional()
  @Matches(KEY_ID, { message: 'key_id must be the id of an API key' })
  key_id?: string;

  /** Only actions of this platform. */
  @IsOptional()
  @IsPlatformId()
  platform_id?: string;

  /** Only actions that were recorded at this time or later. */
  @IsOptional()
  @IsTimestamp()
  recorded_from?: string;

  /** Only actions that were recorded at this time or earlier. Default: now. */
  @IsOptional()
  @IsTimestamp()
  recorded_to?: string;

  /** Why. Required for a dry run, and used when its set is withdrawn. */
  @IsOptional()
  @IsIn(REASONS)
  reason?: Reason;

  /** Must be `true`, unless `apply` is given: what is withdrawn is always the set of a dry run. */
  @IsOptional()
  @IsBoolean()
  dry_run?: boolean;

  /** The id of a completed dry run, whose set is withdrawn. Nothing else may be given with it. */
  @IsOptional()
  @Matches(/^wdr_[0-9a-f]{32}$/, { message: 'apply must be the job_id of a dry run' })
  apply?: string;
}

/** What is asked: a dry run, or the withdrawal of the set that one has found. */
export type AskedWithdrawal = { filter: SetFilter; reason: Reason } | { apply: string };

/** @returns also what identifies the request @throws Problem validation_failed */
export function toWithdrawal(
  { apply, dry_run, reason, ...filter }: WithdrawActionsDto,
  now: number,
): { asked: AskedWithdrawal; hashed: object } {
  if (apply !== undefined) {
    const given = { dry_run, reason, ...filter };
    const [other] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
    if (other) throw refusalOf(`/${other}`, 'exclusive', `${other} is that of the dry run: leave it out beside apply`);
    return { asked: { apply }, hashed: { apply } };
  }
  if (dry_run !== true)
    throw refusalOf('/dry_run', 'dry_run_first', 'dry_run must be true; then send its job_id as apply');
  if (reason === undefined) throw refusalOf('/reason', 'required', 'reason is required for a dry run');
  const { action_id = null, key_id = null, platform_id = null, recorded_from, recorded_to } = filter;
  if (action_id === null && key_id === null && platform_id === null) {
    throw refusalOf('/key_id', 'required', 'action_id, key_id or platform_id is required');
  }
  const to = recorded_to === undefined ? now : parseTimestamp(recorded_to)!;
  if (to > now) throw refusalOf('/recorded_to', 'in_the_future', 'recorded_to must not be in the future');
  const from = recorded_from === undefined ? null : parseTimestamp(recorded_from)!;
  if (from !== null && from > to) {
    throw refusalOf('/recorded_from', 'empty_range', 'recorded_from must not be after recorded_to');
  }
  const set = { action_id, key_id, platform_id, recorded_from: from };
  // Without `recorded_to`, the time of the request is the server's: a retry means the same.
  const hashed = { ...set, recorded_to: recorded_to ?? null, reason };
  return { asked: { filter: { ...set, recorded_to: to }, reason }, hashed };
}

/** An identity whose rating or score would change. */
export class WithdrawalEffectDto {
  tris_id: string;
  /** How many of its actions are in the set. */
  actions: number;
  score: number;
  /** What the score would be. */
  score_after: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  /** What the rating would be. */
  @ApiProperty({ enum: RATINGS })
  score_rating_after: Rating;
}

/** What a dry run found. */
export class WithdrawalDryRunDto {
  /** Why its actions are to be withdrawn. */
  @ApiProperty({ enum: REASONS })
  reason: Reason;
  /** The beginning of the SHA-256 (hex) of the key `key_id`, by which its holder knows it; null: unknown to the caller, or none is meant. */
  key_digest: string | null;
  /** Actions in the set. */
  actions: number;
  /** Identities that they are about. */
  identities: number;
  /** Identities whose rating would change. */
  ratings_changed: number;
  /** The hundred whose score would change most. */
  largest: WithdrawalEffectDto[];
  /** Recorded access decisions in which an action of the set counted. */
  decisions: number;
  /** Those of them that would be granted instead of denied, or denied instead of granted. */
  decisions_differ: number;
  /** All events up to this position were looked at. */
  position: string;
  /** Until when the set can be downloaded, and withdrawn. */
  lines_until: string;
}

/** What became of a set. */
export class WithdrawalAppliedDto {
  /** The dry run whose set it is. */
  dry_run: string;
  /** Actions of the set; each of them is withdrawn. */
  actions: number;
  /** All withdrawals are up to here; for `Credence-Min-Position`. */
  position: string;
}
