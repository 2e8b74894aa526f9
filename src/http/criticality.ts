import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import { CRITICALITIES } from '../scoring/model.js';

/** One of the five criticalities, in upper or lower case. Read it with `criticalityOf`. */
export function IsCriticality(): PropertyDecorator {
  return applyDecorators(
    ValidateBy(
      {
        name: 'criticality',
        validator: {
          validate: (value) => typeof value === 'string' && criticalityOf(value) !== undefined,
          defaultMessage: () => `$property must be one of ${CRITICALITIES.join(', ')}, in any case`,
        },
      },
      { context: { code: 'unknown_criticality' } },
    ),
    // Other spellings are accepted, but these are the ones to send.
    ApiProperty({ enum: [...CRITICALITIES, ...CRITICALITIES.map((name) => name.toLowerCase())], example: 'high' }),
  );
}

/** The canonical name of a criticality written in upper or lower case. */
export function criticalityOf(name: string): (typeof CRITICALITIES)[number] | undefined {
  const lower = name.toLowerCase();
  return CRITICALITIES.find((criticality) => criticality.toLowerCase() === lower);
}
