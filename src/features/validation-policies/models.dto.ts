import { ArrayMaxSize, IsArray, IsIn, IsOptional } from 'class-validator';
import { IsUnique, Matches } from '../../http/fields.js';
import { POLICY_REF } from '../../kernel/identifiers.js';
import { MODEL_IDS } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import { ModelDto } from '../disc/disc.dto.js';
import { REPLAY_ID, REPLAY_MESSAGE } from './vp.dto.js';

export class ModelParams {
  /** The version of the scoring model. */
  @IsIn(MODEL_IDS)
  model_id: ModelId;
}

export class StartModelReplayDto {
  /** Access policies whose decisions to compare. Default: all that are not retired. */
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(20)
  @Matches(POLICY_REF, { each: true, message: '$property must contain ids of access policies, such as AP_LOAN_V1' })
  @IsUnique()
  access_policies?: string[];
}

export class PromoteModelDto {
  /** A completed replay of this version, on which the decision is based. Recorded with it. */
  @IsOptional()
  @Matches(REPLAY_ID, { message: REPLAY_MESSAGE })
  replay_id?: string;
}

export class KnownModelDto extends ModelDto {
  /** Whether it serves the platform. */
  active: boolean;
}

export class ModelsDto {
  /** The versions. */
  models: KnownModelDto[];
}

export class ModelSwitchDto {
  /** The version that is active from `position` on. */
  active: ModelDto;
  previous: ModelDto;
  replay_id: string | null;
  /** Generation of the read models; null while the switch is not applied yet. */
  generation: string | null;
  /** Reads at or after this position are computed by the active version. */
  position: string;
  /** Only with status 202. Reads that wait for `position` see the switch. */
  job_id?: string;
}
