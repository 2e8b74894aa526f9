import { IsOptional, IsString, Length, Matches } from 'class-validator';
import { IsInt, IsUuid } from '../../http/fields.js';

/** The rest of the address of a tile: its number in groups of three digits, and the width of a partial one. */
export const TILE = /^((?:x(?!000)\d{3}\/(?:x\d{3}\/){0,3})?\d{3})(?:\.p\/([1-9]\d?|1\d\d|2[0-4]\d|25[0-5]))?$/;

export class EntriesParams {
  @Matches(TILE, { message: 'a tile must be <N>, or <N>.p/<W>, with N as 067, x001/067 and so on' })
  '*': string;
}

export class TileParams extends EntriesParams {
  @Matches(/^(\d|[1-5]\d|6[0-3])$/, { message: 'the level of a tile must be a number from 0 to 63' })
  level: string;
}

export class InclusionQuery {
  /** Where the event is in the log; opaque. Instead of `event_id`. */
  @IsOptional()
  @IsString()
  @Length(1, 128)
  position?: string;

  /** The id of an action or of a dead letter. Other events are found by their position only. */
  @IsOptional()
  @IsUuid()
  event_id?: string;

  /** The number of events in the tree. Default: all that the read models have applied. */
  @IsOptional()
  @IsInt(1)
  size?: number;
}

export class ConsistencyQuery {
  /** The number of events in the older tree. */
  @IsInt(1)
  from: number;

  /** The number of events in the newer tree. Default: all that the read models have applied. */
  @IsOptional()
  @IsInt(1)
  to?: number;
}

/** Shows that an event is in the log: a proof of RFC 9162, section 2.1.3. Hashes are in base64. */
export class InclusionDto {
  position: string;
  /** The index of the event: how many events are before it. */
  index: number;
  /** The number of events in the tree. */
  size: number;
  /** The root of the tree. */
  root: string;
  /** The leaf of the event: its hash. */
  leaf: string;
  /** The hashes from the sibling of the leaf up. */
  proof: string[];
  /** The same for the newest signed checkpoint, as a file (C2SP tlog-proof); null while none includes the event. */
  tlog_proof: string | null;
}

/** Shows that a tree of the log begins with an older one: a proof of RFC 9162, section 2.1.4. Hashes are in base64. */
export class ConsistencyDto {
  /** The number of events in the older tree. */
  from: number;
  /** The number of events in the newer tree. */
  to: number;
  /** The root of the older tree. */
  from_root: string;
  /** The root of the newer tree. */
  to_root: string;
  /** The hashes, in the order of RFC 9162. */
  proof: string[];
}
