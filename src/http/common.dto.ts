import { ApiProperty } from '@nestjs/swagger';
import { IsOptional, IsString, Length } from 'class-validator';
import { PROBLEMS } from '../kernel/problems.js';
import { IsInt, IsTrisId, IsWrittenTrisId } from './fields.js';

/** The path parameter `:tris_id`. */
export class TrisIdParams {
  @IsTrisId()
  tris_id: string;
}

/** The path parameter `:tris_id` of a route that records something about it. */
export class WrittenTrisIdParams {
  @IsWrittenTrisId()
  tris_id: string;
}

/** Query parameters of a paged list. */
export class PageQuery {
  /** Entries on a page. */
  @IsOptional()
  @IsInt(1, 1000)
  limit: number = 100;

  /** `next_cursor` of the page before; opaque. */
  @IsOptional()
  @IsString()
  @Length(1, 1024)
  cursor?: string;
}

/** Work in the background that a request has started. */
export class JobStartedDto {
  job_id: string;
}

/** One wrong field of a request. */
export class FieldErrorDto {
  /** RFC 6901 JSON pointer into the body, `?name` for a query parameter, the plain name of a path parameter or header. */
  pointer: string;
  /** The stable, machine-readable name of the rule that the field breaks. */
  code: string;
  /** What is wrong, in words. */
  message: string;
}

/** The schema of the codes of problems. */
export const PROBLEM_CODE = { enum: Object.keys(PROBLEMS), enumName: 'ProblemCode' };

/** How far read models are built. */
export class BuildProgressDto {
  /** Events applied so far. */
  done: number;
  /** Events in the log. */
  total: number;
}

/** A refusal, RFC 9457. */
export class ProblemDto {
  /** URI reference that identifies the kind of problem. */
  @ApiProperty({ format: 'uri-reference' })
  type: string;
  title: string;
  /** The HTTP status. */
  status: number;
  /** What is wrong with this request. */
  detail: string;
  /** Stable, machine-readable name of the kind. */
  @ApiProperty(PROBLEM_CODE)
  code: string;
  /** The `X-Request-Id` of the request; the log of the service contains it. */
  request_id: string;
  /** Up to 100 wrong fields of the request. */
  errors?: FieldErrorDto[];
  /** Of `projection_rebuilding`, if it is known. */
  progress?: BuildProgressDto;
}

/** Why an item of a batch has no result: the refusal that a request for it alone would have got. */
export class ItemProblemDto {
  /** URI reference that identifies the kind of problem. */
  @ApiProperty({ format: 'uri-reference' })
  type: string;
  title: string;
  /** The HTTP status of the problem. */
  status: number;
  /** What is wrong with this item. */
  detail: string;
  /** Stable, machine-readable name of the kind. */
  @ApiProperty(PROBLEM_CODE)
  code: string;
  /** The first ten wrong fields, with pointers into the item. */
  errors?: FieldErrorDto[];
}
