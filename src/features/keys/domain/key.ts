import type { RecordedEvent } from '../../../kernel/event.js';
import { type Fact, decoderFor, fact } from '../../../kernel/event-definition.js';
import { canonicalJson } from '../../../kernel/hash.js';
import { Problem } from '../../../kernel/problems.js';
import { keyGone, keySeen } from './keys.events.js';

const decode = decoderFor([keySeen, keyGone]);

export const keyStream = (id: string): string => `key-${id}`;

/** A key as it is in the file. */
interface Key {
  id: string;
  sha256: string;
  scopes: readonly string[];
  organization?: string;
}

/** @throws Problem key_conflict if the id was that of another key */
export function decideSeen(history: readonly RecordedEvent[], key: Key): Fact[] {
  const [key_id, digest_prefix] = [key.id, key.sha256.slice(0, 16)];
  const data = { key_id, digest_prefix, scopes: [...key.scopes], organization: key.organization ?? null };
  const events = history.map(decode);
  if (events.some((event) => event.type === 'KeySeen' && event.data.digest_prefix !== digest_prefix)) {
    throw new Problem('key_conflict', `The id "${key_id}" was that of another key: choose an id that no key has had.`);
  }
  const last = events.at(-1);
  return last?.type === 'KeySeen' && canonicalJson(last.data) === canonicalJson(data) ? [] : [fact(keySeen, data)];
}

export function decideGone(history: readonly RecordedEvent[], id: string): Fact[] {
  const last = history.map(decode).at(-1);
  return last?.type === 'KeySeen' ? [fact(keyGone, { key_id: id })] : [];
}
