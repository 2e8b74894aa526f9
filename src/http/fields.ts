import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  ArrayUnique,
  IsArray,
  IsIn,
  IsInt as IsInteger,
  Matches as MatchesPattern,
  Max,
  Min,
  ValidateBy,
  ValidateNested,
  type ValidationArguments,
  type ValidationOptions,
} from 'class-validator';
import { getAddress } from 'ethers/address';
import {
  ACTION_TYPE,
  EVENT_ID,
  EXTERNAL_ID,
  isMisspelled,
  parseTimestamp,
  PLATFORM_ID,
  REASON_CODE,
  RESERVED_PLATFORM,
  RESERVED_TRIS,
  SHA256_HEX,
  spellingOf,
  TRIS_ID,
  TRIS_ID_FORM,
} from '../kernel/identifiers.js';
import { shorten } from '../kernel/json.js';
import { NAME_NOBODY, personalDataIn } from '../kernel/personal-data.js';
import { CATEGORY_NAMES, criticalityOf } from '../scoring/names.js';
import { CRITICALITIES } from '../scoring/model.js';

/**
 * A decorator for fields: the check, its message and its OpenAPI schema. With `each` it is about the items of a list.
 * @param must completes "<field> must ", also for the value that is wrong
 * @param schema what the OpenAPI document says of the field; without it, nothing
 * @param code the problem's code for this field, if not `name`
 */
export function field(
  name: string,
  holds: (value: unknown) => boolean,
  must: string | ((value: unknown) => string),
  schema?: Record<string, unknown>,
  code?: string,
): (options?: ValidationOptions) => PropertyDecorator {
  const defaultMessage = (args?: ValidationArguments) =>
    `$property must ${typeof must === 'string' ? must : must(args?.value)}`;
  const validator = { validate: holds, defaultMessage };
  return (options) =>
    applyDecorators(
      ValidateBy({ name, validator }, code ? { ...options, context: { code } } : options),
      ...(schema ? [ApiProperty(options?.each ? listOf(schema) : (schema as object))] : []),
    );
}

/** As Nest's Swagger module wants it: it moves the rest of a schema with `isArray` to the items, but not the example. */
function listOf(schema: Record<string, unknown>): object {
  if (schema.type === 'array') return { type: 'array', items: schema };
  return { ...schema, isArray: true, ...(schema.example !== undefined && { example: [schema.example] }) };
}

/**
 * As class-validator's, and in the OpenAPI document, whose patterns have no flags. By itself it would only have those that
 * are literals in the DTO.
 */
export const Matches = (pattern: RegExp, options?: ValidationOptions): PropertyDecorator => {
  const matches = MatchesPattern(pattern, options);
  if (pattern.flags !== '') return matches;
  const { source } = pattern;
  return applyDecorators(
    matches,
    ApiProperty(options?.each ? listOf({ type: String, pattern: source }) : { pattern: source }),
  );
};

/** A whole number, within bounds if they are given. In the OpenAPI document, class-validator's would be a number. */
export const IsInt = (min?: number, max?: number): PropertyDecorator =>
  // Of several decorators, the one that is applied last is checked first, here and below.
  applyDecorators(
    ...(max === undefined ? [] : [Max(max)]),
    ...(min === undefined ? [] : [Min(min)]),
    IsInteger(),
    ApiProperty({ type: 'integer', minimum: min, maximum: max }),
  );

/** An object of a class of its own, or a list of these. */
export const IsNested = (type: () => object, options?: ValidationOptions): PropertyDecorator =>
  applyDecorators(Type(type as () => Function), ValidateNested(options));

/** A field that is text of a pattern. */
const text = (name: string, pattern: RegExp, must: string, schema: { example?: string; maxLength?: number } = {}) =>
  field(name, (value) => typeof value === 'string' && pattern.test(value), `be ${must}`, {
    type: String,
    pattern: pattern.source,
    ...schema,
  });

export const IsTrisId = text('tris_id', TRIS_ID, `a TRIS id: ${TRIS_ID_FORM}`, {
  example: 'tris@alice',
  maxLength: 128,
});
export const IsPlatformId = text('platform_id', PLATFORM_ID, 'a platform id: 1 to 100 letters, digits or ._:@-', {
  example: 'lending.example',
});
/** For values from clients that are recorded permanently. */
export const IsNoPersonalData = field(
  'personal_data',
  (value) => typeof value !== 'string' || personalDataIn(value) === undefined,
  NAME_NOBODY,
  undefined,
  'personal_data',
);

const IsNotTrisOfPlatform = field(
  'reserved',
  (value) => typeof value !== 'string' || !RESERVED_TRIS.test(value),
  'not start with "tris:platform:", which is reserved for platforms without an owner',
);
const IsNotChain = field(
  'reserved',
  (value) => typeof value !== 'string' || !RESERVED_PLATFORM.test(value),
  'not start with "eip155:", which is reserved for chains that the service reads itself',
);
export const IsOneSpelling = field(
  'address_spelling',
  (value) => typeof value !== 'string' || !isMisspelled(value),
  (value) => `be ${spellingOf(String(value))}: an id that is an address has one spelling`,
);
/** A TRIS id that will be recorded: not reserved for the service, naming no person, an address in lower case. */
export const IsWrittenTrisId = (options?: ValidationOptions): PropertyDecorator =>
  applyDecorators(IsTrisId(options), IsNotTrisOfPlatform(options), IsNoPersonalData(options), IsOneSpelling(options));
/** A platform id that will be recorded. */
export const IsWrittenPlatformId = (options?: ValidationOptions): PropertyDecorator =>
  applyDecorators(IsPlatformId(options), IsNotChain(options), IsNoPersonalData(options));

export const IsActionType = text(
  'action_type',
  ACTION_TYPE,
  'an action type: a lower-case letter followed by up to 63 lower-case letters, digits or underscores',
  { example: 'loan_repayment' },
);
export const IsExternalId = text(
  'external_id',
  EXTERNAL_ID,
  '1 to 200 printable ASCII characters without a space at either end',
  { example: 'order-2041' },
);
/** An operator's reason. A code, since events are permanent and contain no free text. */
export const IsReasonCode = text(
  'reason_code',
  REASON_CODE,
  'a lower-case letter followed by up to 63 lower-case letters, digits or underscores',
  { example: 'confirmed_fraud' },
);
/** Read it with `canonicalMetric`. */
export const IsMetric = text(
  'metric',
  new RegExp(`^(?:${CATEGORY_NAMES.join('|')})_[a-z][a-z0-9_]{0,63}$`),
  '<category>_<name>: a category or alias, an underscore, then a lower-case letter followed by up to 63 lower-case letters, digits or underscores',
);
/** One of the five criticalities, in upper or lower case. Read it with `criticalityOf`. */
export const IsCriticality = field(
  'criticality',
  (value) => typeof value === 'string' && criticalityOf(value) !== undefined,
  `be one of ${CRITICALITIES.join(', ')}, in any case`,
  // Generators make a member of each value, and names that differ only in case collide in some languages.
  { enum: [...CRITICALITIES], example: 'High' },
  'unknown_criticality',
);
/** The id of an event or a job. Ids are compared exactly, so another spelling would never be found. */
export const IsUuid = field(
  'isUuid',
  (value) => typeof value === 'string' && EVENT_ID.test(value),
  'be a UUID in lower case',
  { type: String, format: 'uuid' },
);
export const IsSha256 = text('sha256', SHA256_HEX, 'a SHA-256 digest: 64 lower-case hexadecimal digits');

/** An RFC 3339 date-time with an offset; read it with `parseTimestamp`. */
export const IsTimestamp = field(
  'timestamp',
  (value) => typeof value === 'string' && parseTimestamp(value) !== undefined,
  'be an existing RFC 3339 date-time with Z or an offset, such as 2026-01-31T12:00:00Z',
  { type: String, format: 'date-time' },
);

/** An array without duplicates. Write it after the `each` checks, from which OpenAPI takes the schema of the items. */
export const IsUnique = (): PropertyDecorator =>
  applyDecorators(
    ArrayUnique({ message: ({ value }) => `$property must not contain anything twice${twiceIn(value)}` }),
    ApiProperty({ uniqueItems: true }),
  );

/** Names the first value that occurs twice, and where. */
function twiceIn(list: unknown): string {
  if (!Array.isArray(list)) return '';
  const second = list.findIndex((item, i) => list.indexOf(item) < i);
  if (second < 0) return '';
  return `, but ${JSON.stringify(shorten(String(list[second])))} is at ${list.indexOf(list[second])} and at ${second}`;
}

/** More items than a batch may have are a refusal of its own. */
export const TOO_LARGE = { context: { code: 'batch_too_large' } };

/** At most so many items. Of `ArrayMaxSize`, the OpenAPI document would have only what is a number in the source. */
export const AtMost = (items: number, options?: ValidationOptions): PropertyDecorator =>
  applyDecorators(ArrayMaxSize(items, options), ApiProperty({ maxItems: items }));

/** A batch of TRIS ids, each once. @param most how many */
export const AreTrisIds = (most: number): PropertyDecorator =>
  applyDecorators(
    IsUnique(),
    IsTrisId({ each: true }),
    AtMost(most, TOO_LARGE),
    ArrayMinSize(1),
    IsArray(),
    ApiProperty({ minItems: 1 }),
  );

/** Some of a few values: at least one, each once. */
export const AreSomeOf = (values: readonly string[]): PropertyDecorator =>
  applyDecorators(
    IsUnique(),
    IsIn(values, { each: true }),
    ArrayMinSize(1),
    IsArray(),
    ApiProperty({ type: 'array', items: { type: 'string', enum: [...values] }, minItems: 1 }),
  );

const COMMA_SEPARATED = Symbol('comma separated');

/** A query parameter `a,b,c` that arrives in the DTO as `string[]`; combine with `each` validators. */
export const CommaSeparated = (): PropertyDecorator =>
  applyDecorators(
    (target: object, property: string | symbol) => Reflect.defineMetadata(COMMA_SEPARATED, true, target, property),
    ApiProperty({ type: [String], style: 'form', explode: false, minItems: 1 } as object),
  );
export const isCommaSeparated = (prototype: object, property: string): boolean =>
  Reflect.getMetadata(COMMA_SEPARATED, prototype, property) === true;

const CHOICE = Symbol('choice of numbers');

/** One of a few whole numbers. A body may also contain it as text, as a query does; the DTO contains the number. */
export const IsOneOf = (numbers: readonly number[]): PropertyDecorator =>
  applyDecorators(
    (target: object, property: string | symbol) => Reflect.defineMetadata(CHOICE, numbers, target, property),
    IsIn(numbers),
    ApiProperty({ type: 'integer', enum: [...numbers] }),
  );
/** Reads the text of such a choice. Any other text is returned unchanged, and then refused. */
export function choiceReader(prototype: object, property: string): ((value: unknown) => unknown) | undefined {
  const numbers = Reflect.getMetadata(CHOICE, prototype, property) as readonly number[] | undefined;
  return numbers && ((value) => numbers.find((number) => String(number) === value) ?? value);
}

const ADDRESS = /^0x[0-9A-Fa-f]{40}$/;
const isSpelled = (address: string): boolean => {
  const small = address.toLowerCase();
  return address === small || address === getAddress(small);
};
const IsAddress = field(
  'wallet_address',
  (value) => typeof value === 'string' && ADDRESS.test(value),
  'be an address: 0x and 40 hexadecimal digits',
  { type: String, pattern: ADDRESS.source, example: '0x9d85ca56217d2bb651b00f15e694eb7e713637d4' },
);
const IsSpelledAddress = field(
  'address_checksum',
  (value) => typeof value !== 'string' || !ADDRESS.test(value) || isSpelled(value),
  'be all in lower case, or have its EIP-55 checksum',
  undefined,
  'address_checksum',
);
const IsNotZeroAddress = field('zero_address', (value) => value !== `0x${'0'.repeat(40)}`, 'not be the zero address');

/** An EVM address in lower case or with its EIP-55 checksum. */
export const IsWalletAddress = (): PropertyDecorator => applyDecorators(IsSpelledAddress(), IsAddress());
/** Such an address, but not the zero address. */
export const IsHeldAddress = (): PropertyDecorator => applyDecorators(IsWalletAddress(), IsNotZeroAddress());
