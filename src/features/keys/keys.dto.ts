import { ApiProperty } from '@nestjs/swagger';
import { ArrayNotEmpty, ArrayUnique, IsIn, IsOptional, MaxLength } from 'class-validator';
import { KEY_ID, NEW_KEY_ID, NEW_KEY_ID_FORM } from '../../credentials/api-keys.js';
import { type Scope, SCOPES } from '../../credentials/caller.js';
import { AtMost, IsWrittenTrisId, Matches } from '../../http/fields.js';

export class KeyParams {
  @Matches(KEY_ID, { message: '$property must be the id of a key' })
  @ApiProperty({ example: 'lendco-relay' })
  key_id: string;
}

export class CreateKeyDto {
  /** Events record it as the actor `key:<id>`. */
  @Matches(NEW_KEY_ID, { message: `$property must be ${NEW_KEY_ID_FORM}` })
  @MaxLength(64)
  key_id: string;

  /** What it permits: scopes that the key of this request has, or `reads`. */
  @ArrayNotEmpty()
  @AtMost(SCOPES.length)
  @ArrayUnique()
  @IsIn(SCOPES, { each: true })
  @ApiProperty({ type: 'array', items: { type: 'string', enum: [...SCOPES] } })
  scopes: Scope[];

  /** The organization that it acts for. Default: none. */
  @IsOptional()
  @IsWrittenTrisId()
  organization?: string;
}

export class KeyDto {
  key_id: string;
  @ApiProperty({ type: 'array', items: { type: 'string', enum: [...SCOPES] } })
  scopes: Scope[];
  organization: string | null;
  /** Whether it is the development key, which is in a separate file and cannot be deleted here. */
  is_development: boolean;
}

export class CreatedKeyDto extends KeyDto {
  /** The key itself. It is shown only this once. */
  key: string;
}

export class KeysDto {
  /** The keys, without their secrets. */
  keys: KeyDto[];
  /** Why keys can be neither created nor deleted here; null if they can. */
  read_only: string | null;
}

export class DeletedKeyDto {
  key_id: string;
}
