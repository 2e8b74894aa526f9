import { ApiProperty } from '@nestjs/swagger';
import { IsIn, IsOptional } from 'class-validator';
import { PURPOSES, type Purpose } from './health.js';

export class ReadinessQuery {
  /** Only what this needs. Default: all that the process does. */
  @IsOptional()
  @IsIn(PURPOSES)
  for?: Purpose;
}

export class LivenessDto {
  /** Always `ok`. */
  status: string;
}

export class CheckDto {
  /** The name of the part. */
  name: string;
  /** `ok` or `failed`. */
  @ApiProperty({ enum: ['ok', 'failed'] })
  status: string;
  /** The state of the part, in words. */
  detail: string;
}

export class ReadinessDto {
  /** `ok` or `unavailable`. */
  @ApiProperty({ enum: ['ok', 'unavailable'] })
  status: string;
  /** The parts of the service. */
  checks: CheckDto[];
}
