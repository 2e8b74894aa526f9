import { evolve, newIdentity } from '../../projections/identities.js';
import { parseTimestamp } from '../kernel/identifiers.js';
import { toCoordinates } from '../features/disc/coordinates.js';
import type { BadStatusSinceDto, CoordinatesQuery, HistoryEntryDto } from '../features/disc/disc.dto.js';
import { RunningStanding, historyEntry } from '../features/disc/history.js';
import { IdentityReader } from '../features/disc/identity-reader.js';
import { score } from '../features/disc/score.js';
import { MODEL_VP } from '../features/lenses/lenses.js';
import { MODEL_IDS } from '../scoring/models/all.js';
import type { Cli, JsonOption } from './cli.js';
import { UsageError, checkedTrisId, chosen } from './exit.js';
import { withHandlers } from './handlers.js';
import { count } from './progress.js';
import { table } from './table.js';

type Options = JsonOption & Partial<Record<'vp' | 'model' | 'asOf' | 'knownAt' | 'limit', string>>;

export function replayCommand(cli: Cli): void {
  cli.program
    .command('replay')
    .description("fold an identity's history and show the effect of each event and the resulting score")
    .argument('<tris>', 'TRIS id of the identity')
    .option('--vp <policy>', `id of a policy, or ${MODEL_VP} for the model's own lens; default: the platform's lens`)
    .option('--model <id>', `version of the scoring model, ${MODEL_IDS.join(' or ')}; default: the platform's`)
    .option('--as-of <time>', 'only events that occurred by then, such as 2016-01-31T00:00:00Z')
    .option('--known-at <time>', 'only events that were recorded by then')
    .option('--limit <n>', 'show only the last n events; all are folded')
    .option('--json', 'print it as JSON')
    .action(
      withHandlers(cli, 'existing', [], async (context, tris: string, options: Options) => {
        const { print, progress } = context;
        checkedTrisId(tris);
        if (options.limit !== undefined && !/^[1-9]\d{0,9}$/.test(options.limit)) {
          throw new UsageError(`--limit must be a whole number from 1, not "${options.limit}".`);
        }
        const models = `--model must be one of ${MODEL_IDS.join(', ')}, not "${options.model}".`;
        const coordinates = {
          model: options.model === undefined ? undefined : chosen(MODEL_IDS, options.model, models),
          as_of: time('--as-of', options.asOf),
          known_at: time('--known-at', options.knownAt),
          vp: options.vp,
        };
        const limit = options.limit === undefined ? Infinity : Number(options.limit);
        const replayed = await progress('Folding', 'events', (update) =>
          replay(context.get(IdentityReader), tris, coordinates, limit, update),
        );
        print(options.json ? JSON.stringify(replayed) : render(replayed));
      }),
    );
}

/**
 * Folds the timeline of an identity up to a viewpoint, with the functions that serve its score and its history.
 * @param limit the maximum number of entries returned; the last ones are kept
 * @throws Problem identity_not_found, policy_not_found
 */
export async function replay(
  reader: IdentityReader,
  trisId: string,
  coordinates: CoordinatesQuery,
  limit = Infinity,
  onProgress: (done: number, total: number) => void = () => undefined,
) {
  const snapshot = await reader.snapshot(trisId, toCoordinates(coordinates, Date.now(), '?'));
  const running = new RunningStanding(snapshot.lens);
  const state = newIdentity();
  let entries: HistoryEntryDto[] = [];
  let events = 0;
  for await (const page of snapshot.reader.events()) {
    for (const event of page) {
      evolve(state, event);
      entries.push(historyEntry(event, running, reader.logId));
      events++;
    }
    if (entries.length > 2 * limit) entries = entries.slice(-limit);
    onProgress(events, Math.max(events, snapshot.state.actions));
  }
  // The entries are those of the last events.
  return {
    tris_id: trisId,
    events,
    entries: entries.slice(-limit),
    score: score({ ...snapshot, state }, reader.logId),
  };
}

function time(option: string, value: string | undefined): string | undefined {
  if (value !== undefined && parseTimestamp(value) === undefined) {
    throw new UsageError(`${option} must be a time such as 2016-01-31T00:00:00Z, not "${value}".`);
  }
  return value;
}

function render({ tris_id, events, entries, score }: Awaited<ReturnType<typeof replay>>): string {
  const { as_of, position, lens, model, total_tct, earned_tct, forfeited_tct, reliability, bad_status } = score;
  const skipped = events - entries.length;
  return [
    historyTable(entries),
    ...(skipped > 0 ? [`(${count(skipped)} earlier events not shown)`] : []),
    '',
    `${tris_id}: score ${score.score} (${score.score_rating}), total TCT ${count(total_tct)} = ${count(earned_tct)} earned - ${count(forfeited_tct)} forfeited, reliability ${reliability}`,
    ...(bad_status ? [`BAD status: ${badStatusText(bad_status)}, since ${bad_status.since}`] : []),
    `as of ${as_of}, position ${position}`,
    `lens ${lens.policy_id ?? 'of the model'} ${lens.content_hash}`,
    `model ${model.id} ${model.hash}`,
  ].join('\n');
}

export function historyTable(entries: readonly HistoryEntryDto[]): string {
  const rows = entries.map((entry) => ({
    position: entry.position.slice(entry.position.lastIndexOf('.') + 1),
    occurred: entry.occurred_at,
    event: eventOf(entry),
    metric: entry.metric ?? '-',
    platform: entry.platform_id ?? '-',
    'TCT +/-': `${entry.tct_delta > 0 ? '+' : ''}${count(entry.tct_delta)}`,
    'total TCT': count(entry.total_tct),
    score: entry.score.toFixed(1),
    rating: entry.score_rating,
  }));
  return table(rows);
}

function eventOf({ event_type, bad_status }: HistoryEntryDto): string {
  return event_type === 'BadStatusSet' && bad_status ? `${event_type} (${badStatusText(bad_status)})` : event_type;
}

function badStatusText({ level, reason_code }: BadStatusSinceDto): string {
  return `level ${level}, ${reason_code}`;
}
