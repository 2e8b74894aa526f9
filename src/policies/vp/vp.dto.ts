import { ApiProperty } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsIn,
  IsNumber,
  IsOptional,
  Matches,
  ValidateBy,
  ValidateNested,
} from 'class-validator';
import { PageQuery } from '../../http/common.dto.js';
import { IsCriticality } from '../../http/criticality.js';
import { IsTrisId } from '../../http/fields.js';
import { canonicalMetric } from '../../scoring/metrics.js';
import type { Criticality } from '../../scoring/model.js';
import { VP_ID } from './vp.js';

const VP_MESSAGE = '$property must have the form VP_<NAME>_V<n>: capital letters, digits and underscores, n from 1';
const VERSION = /^v(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})$/;
/** A hundred of the least weight, 0.01, add to 1.00. */
const MAX_INPUTS = 100;

const IsMetric = (): PropertyDecorator =>
  ValidateBy({
    name: 'metric',
    validator: {
      validate: (value) => typeof value === 'string' && canonicalMetric(value) !== undefined,
      defaultMessage: () =>
        '$property must be <category>_<name>: a category or alias, an underscore, then a small letter followed by up to 63 small letters, digits or underscores',
    },
  });

/** What one metric weighs (spec 2.1). */
export class PolicyInputDto {
  @IsMetric()
  metric: string;

  @IsCriticality()
  criticality: string;

  /** That of the criticality: 0.01, 0.03, 0.07, 0.1 or 0.14. */
  @IsNumber()
  weight: number;
}

export class PolicyMetadataDto {
  /** As the owner declares it, 0.95 to 1.05. */
  @IsNumber()
  total_weight: number;

  @IsIn(['public'])
  visibility: 'public';

  /** `v<major>.<minor>`. */
  @Matches(VERSION, { message: '$property must have the form v<major>.<minor>' })
  version: string;
}

/** A validation policy (spec 2.1). */
export class CreatePolicyDto {
  @Matches(VP_ID, { message: VP_MESSAGE })
  policy_id: string;

  /** TRIS id of the owning organization. */
  @IsTrisId()
  tris_org: string;

  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_INPUTS)
  @ValidateNested({ each: true })
  @Type(() => PolicyInputDto)
  inputs: PolicyInputDto[];

  @ValidateNested()
  @Type(() => PolicyMetadataDto)
  metadata: PolicyMetadataDto;
}

/** The path parameter `:policy_id`. */
export class PolicyParams {
  @Matches(/^[A-Za-z0-9_]{1,128}$/, { message: VP_MESSAGE })
  policy_id: string;
}

export class PoliciesQuery extends PageQuery {
  /** Only the policies of this organization. */
  @IsOptional()
  @IsTrisId()
  tris_org?: string;
}

export const POLICY_STATUSES = ['available', 'retired'] as const;
export type PolicyStatus = (typeof POLICY_STATUSES)[number];

export class WarningDto {
  /** RFC 6901 JSON pointer into the policy. */
  pointer: string;
  code: string;
  message: string;
}

export class CreatedPolicyDto {
  policy_id: string;
  tris_org: string;
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
  /** SHA-256 of the RFC 8785 JSON of policy_id, tris_org, inputs and metadata with canonical names. */
  content_hash: string;
  /** Sum of the inputs' weights. */
  computed_weight: number;
  /** The same by category. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'number' } })
  category_weights: Partial<Record<string, number>>;
  /** What is accepted and yet perhaps not meant. */
  warnings: WarningDto[];
}

class CanonicalInputDto {
  metric: string;
  @ApiProperty({ type: String })
  criticality: Criticality;
  weight: number;
}

class PolicyStateDto {
  @ApiProperty({ enum: ['created', 'promoted', 'rolled_back', 'retired'] })
  status: 'created' | 'promoted' | 'rolled_back' | 'retired';
  /** Of a promotion or the rollback of one. */
  @ApiProperty({ enum: ['platform', 'organization'], required: false })
  scope?: 'platform' | 'organization';
  /** The replay that a promotion was based on. */
  @ApiProperty({ type: String, nullable: true, required: false })
  replay_id?: string | null;
  at: string;
  position: string;
}

/** A policy with canonical names, and what became of it. */
export class PolicyDto extends CreatedPolicyDto {
  inputs: CanonicalInputDto[];
  metadata: PolicyMetadataDto;
  /** Who sees through it now. */
  @ApiProperty({ enum: ['platform', 'organization'], isArray: true })
  active_for: ('platform' | 'organization')[];
  history: PolicyStateDto[];
}

export class ListedPolicyDto {
  policy_id: string;
  tris_org: string;
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
  content_hash: string;
  version: string;
  created_at: string;
}

export class PoliciesDto {
  policies: ListedPolicyDto[];
  next_cursor: string | null;
}

export class RetiredPolicyDto {
  policy_id: string;
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
}
