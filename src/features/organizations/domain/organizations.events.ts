import { defineEvent, text } from '../../../kernel/event-definition.js';

/** Stream `organization-<tris>`. */
export const organizationRegistered = defineEvent('OrganizationRegistered', { tris_org: text });
export const organizationVetted = defineEvent('OrganizationVetted', { tris_org: text });
export const organizationVettingRevoked = defineEvent('OrganizationVettingRevoked', { tris_org: text });

/** Stream `platform-<hash of platform_id>`, revision 0: the only record of a platform's owner. */
export const platformRegistered = defineEvent('PlatformRegistered', { platform_id: text, tris_org: text });
