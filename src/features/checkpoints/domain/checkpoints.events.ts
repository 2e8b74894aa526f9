import { defineEvent, nullable, text, wholeNumber } from '../../../kernel/event-definition.js';

/** The root of the tree over the first `size` events of the log (docs/decisions/0036). Stream `checkpoints`. */
export const logCheckpointed = defineEvent('LogCheckpointed', {
  size: wholeNumber(1, Number.MAX_SAFE_INTEGER),
  /** Base64. */
  root: text,
});

/** From here on, checkpoints of the log have this origin. Stream `checkpoints`, of which it is the first event. */
export const logOriginBegun = defineEvent('LogOriginBegun', {
  origin: text,
  /** The origin of the last checkpoint that was signed, which this log need not extend; null: of none. */
  replaces: nullable(text),
  /** Why, as a code; no free text. */
  reason_code: text,
  /** `job:checkpoints`, or `cli:<user>`. */
  begun_by: text,
});
