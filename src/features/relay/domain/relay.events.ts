import { defineEvent, nullable, oneOf, text, wholeNumber } from '../../../kernel/event-definition.js';
import { CRITICALITIES, MODEL } from '../../../scoring/model.js';

/** An identity did something that a platform verified. Stream `action-<hash>`, revision 0. */
export const actionRelayed = defineEvent('ActionRelayed', {
  tris_id: text,
  /** Canonical, `<category>_<action_type>`. */
  metric: text,
  criticality: oneOf(CRITICALITIES),
  platform_id: text,
  /** SHA-256 of the evidence's URI, which is stored in a deletable side table (docs/decisions/0010). */
  evidence_hash: nullable(text),
});

/** The platform's organization endorsed the identity for that action (requirement 6). Same stream, revision 1. */
export const credonationRecorded = defineEvent('CredonationRecorded', {
  tris_id: text,
  /** The projection resolves the sender: the owner of the platform at this position of the log. */
  platform_id: text,
  /** TCT of the action's criticality. */
  amount: wholeNumber(0, Number.MAX_SAFE_INTEGER),
  category: oneOf(MODEL.categories),
});
