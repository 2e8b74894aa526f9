import { ApiProperty } from '@nestjs/swagger';
import { BOUNDS } from '../../commands/quotas.js';

/** What has a bound, and how much of it is used. */
export class UsedBoundDto {
  /**
   * `actions` and their `bytes` that were relayed today; `job_results` and their `job_bytes` that are kept, and
   * `delivery_bytes` of webhooks.
   */
  @ApiProperty({ type: 'string', enum: BOUNDS })
  name: (typeof BOUNDS)[number];
  /** How much of it. */
  used: number;
  /** null: there is none. */
  limit: number | null;
  /** When it begins at 0 again; null for what is kept. */
  resets_at: string | null;
}

export class UsageDto {
  /** The organization of the key of this request; `key:<id>` if it has none. */
  owner: string;
  /** One for each name. */
  bounds: UsedBoundDto[];
}
