import { TRIS_ID, TRIS_ID_FORM } from '../kernel/identifiers.js';
import { UsageError } from './exit.js';

/** The TRIS id of an argument. @throws UsageError */
export function checkedTrisId(text: string): string {
  if (TRIS_ID.test(text)) return text;
  throw new UsageError(`"${text}" is not a TRIS id: ${TRIS_ID_FORM}.`);
}
