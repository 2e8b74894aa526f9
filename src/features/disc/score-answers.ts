import { BoundedMap } from '../../kernel/bounded-map.js';
import { JsonText } from '../../http/answers.js';
import type { IdentitySnapshot } from './identity-reader.js';
import { discScore } from './score.js';

/** About 2 MB. */
const KEPT = 4_000;

interface Answered {
  generation: string;
  lens: string;
  as_of: number;
  isPresent: boolean;
  changed: number;
  text: JsonText;
}

/**
 * Cache of serialized public scores. Generation, identity and the position of its last change determine a state; state,
 * lens and time determine the answer. While none of them changes, the answer is the same to the byte.
 */
export class ScoreAnswers {
  private readonly known = new BoundedMap<string, Answered>(KEPT);

  of(snapshot: IdentitySnapshot): JsonText {
    const { tris_id, generation, as_of, isPresent } = snapshot;
    const { changed } = snapshot.state;
    const lens = `${snapshot.lens.content_hash}/${snapshot.lens.model.hash}`;
    const last = this.known.get(tris_id);
    if (
      last?.changed === changed &&
      last.as_of === as_of &&
      last.isPresent === isPresent &&
      last.generation === generation &&
      last.lens === lens
    ) {
      return last.text;
    }
    const text = new JsonText(JSON.stringify(discScore(snapshot)));
    this.known.set(tris_id, { generation, lens, as_of, isPresent, changed, text });
    return text;
  }
}
