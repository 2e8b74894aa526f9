import { type Problem, fieldProblem } from '../../kernel/problems.js';
import { categoryHealth, metricHealth } from '../../scoring/health.js';
import { CATEGORY_NAMES, DOCUMENTED_METRICS, canonicalMetric, categoryOf } from '../../scoring/names.js';
import { MODEL } from '../../scoring/model.js';
import type { IdentitySnapshot } from './identity-reader.js';

const DOCUMENTED = new Set(DOCUMENTED_METRICS.map(canonicalMetric));

/** Whether a metric is undocumented: it is only known if it is in the identity's evidence or in a stored policy. */
export function isUndocumented(metric: string): boolean {
  return !DOCUMENTED.has(metric);
}

/** The maximum number of an identity's metrics that a refusal lists. */
const LISTED_METRICS = 1_000;

/**
 * Health of categories, aliases or full metrics by requested name. Default: the seven categories.
 * @param weighed canonical metrics that are known because a stored policy weighs them
 * @param pointer to the list of names, for errors
 * @returns Problem unknown_metric for a name that is not a category, not documented, not weighed and not in the
 * evidence
 */
export async function metrics(
  { state, lens, as_of, reader }: IdentitySnapshot,
  names: readonly string[] | undefined,
  weighed: ReadonlySet<string>,
  pointer: string,
): Promise<Record<string, number> | Problem> {
  const asked = (names ?? []).flatMap((name) => (categoryOf(name) ? [] : (canonicalMetric(name) ?? [])));
  const evidence = await reader.evidenceOf(asked);
  const categories = categoryHealth(state.evidence, lens, as_of);
  const payload: Record<string, number> = {};
  for (const [i, name] of (names ?? MODEL.categories).entries()) {
    const category = categoryOf(name);
    const metric = canonicalMetric(name);
    if (category) payload[name] = categories[category];
    else if (metric && (DOCUMENTED.has(metric) || weighed.has(metric) || Object.hasOwn(evidence, metric))) {
      payload[name] = metricHealth(evidence, metric, lens, as_of);
    } else {
      const at = pointer.startsWith('?') ? pointer : `${pointer}/${i}`;
      return unknownMetric(name, at, await reader.metrics(LISTED_METRICS));
    }
  }
  return payload;
}

function unknownMetric(name: string, pointer: string, inEvidence: readonly string[]): Problem {
  const message = `${JSON.stringify(name)} is not a metric of this identity`;
  const known = [...CATEGORY_NAMES, ...new Set([...DOCUMENTED_METRICS, ...inEvidence])];
  return fieldProblem(pointer, 'unknown_metric', message, `${message}. Known metrics: ${known.join(', ')}.`);
}
