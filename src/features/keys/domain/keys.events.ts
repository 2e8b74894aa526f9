import { defineEvent, listOf, nullable, text } from '../../../kernel/event-definition.js';

/** Stream `key-<id>`: a process has loaded this key, or found other scopes or another organization. */
export const keySeen = defineEvent('KeySeen', {
  key_id: text,
  digest_prefix: text,
  scopes: listOf(text),
  organization: nullable(text),
});
/** The key is no longer in the file. Same stream. */
export const keyGone = defineEvent('KeyGone', { key_id: text });
