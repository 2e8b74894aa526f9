import { ArrayMaxSize, IsArray } from 'class-validator';
import { IsWrittenPlatformId, IsWrittenTrisId, IsUnique } from '../../http/fields.js';

export class RegisterOrganizationDto {
  @IsWrittenTrisId()
  tris_org: string;

  /**
   * Platforms it owns. A platform belongs to one organization permanently. A repeated request may add platforms; its
   * answer contains only those it names, `GET /v1/organizations/{tris_id}` returns all.
   */
  @IsArray()
  @ArrayMaxSize(100)
  @IsWrittenPlatformId({ each: true })
  @IsUnique()
  platform_ids: string[];
}

export class RegisterPlatformDto {
  @IsWrittenPlatformId()
  platform_id: string;

  /** A registered organization. */
  @IsWrittenTrisId()
  tris_org: string;
}

export class ListedOrganizationDto {
  tris_org: string;
  vetted: boolean;
  registered_at: string;
}

export class OrganizationDto extends ListedOrganizationDto {
  /** The platforms that the organization owns. */
  platform_ids: string[];
}

export class OrganizationsDto {
  /** The organizations. */
  organizations: ListedOrganizationDto[];
  next_cursor: string | null;
}

export class PlatformDto {
  platform_id: string;
  tris_org: string;
}

export class VettingDto {
  tris_org: string;
  vetted: boolean;
}
