import { setTimeout as sleep } from 'node:timers/promises';
import { RATINGS } from '../scoring/model.js';
import { GetReplay } from '../features/validation-policies/replays.js';
import type { ReplayDto, ReplayResultDto } from '../features/validation-policies/vp.dto.js';
import type { JsonOption } from './cli.js';
import { CommandFailed } from './exit.js';
import { type HandlersContext, OPERATOR } from './handlers.js';
import { count } from './progress.js';
import { table } from './table.js';

/** Prints what a switch of the lens or of the model changes for all identities. */

const LOOK_MS = 50;
const BAR = 32;
const SHOWN_MOVERS = 10;

/** Runs a replay to its end, here or in a running server, and prints its result. @throws CommandFailed */
export async function printReplay(context: HandlersContext, started: ReplayDto, { json }: JsonOption): Promise<void> {
  const { queries, stores, print, progress } = context;
  await stores.jobs.start();
  const replay = await progress('Replaying', 'identities', (update) => ended(started, queries, update));
  if (!replay.result) throw new CommandFailed(`${replay.replay_id} ${replay.status}: ${replay.error}`);
  print(json ? JSON.stringify(replay) : `${renderChange(replay.result)}\n\nreplay ${replay.replay_id}`);
}

/** The replay once it has ended. */
export async function ended(
  started: ReplayDto,
  queries: HandlersContext['queries'],
  onProgress: (done: number, total: number) => void = () => undefined,
): Promise<ReplayDto> {
  let replay = started;
  while (replay.status === 'queued' || replay.status === 'running') {
    await sleep(LOOK_MS);
    replay = await queries.execute(new GetReplay({ replayId: replay.replay_id, actor: OPERATOR }));
    onProgress(replay.progress.done, replay.progress.total);
  }
  return replay;
}

/** A lens; in replays with the version of the model. */
type Side = { policy_id: string | null; model?: { id: string } };
type Rendered = Omit<ReplayResultDto, 'before' | 'after'> & Record<'before' | 'after', Side>;

/** The distributions of ratings and scores before and after, the moves between ratings, the top movers and the changed decisions. */
export function renderChange(change: Rendered): string {
  const { histogram, top_movers, rating_moves, access } = change;
  const isOfModels = change.before.model?.id !== change.after.model?.id;
  const name = ({ policy_id, model }: Side) => (isOfModels && model?.id) || (policy_id ?? 'the model’s own lens');
  const scores = histogram.before.by_score.map((_n, i) => `${i * 10}–${i * 10 + 10}`);
  const ratingPairs = RATINGS.flatMap((from) =>
    RATINGS.map((to) => ({ from, to, identities: rating_moves[from][to] })),
  );
  const moves = ratingPairs.filter(({ from, to, identities }) => from !== to && identities > 0);
  const movers = [...top_movers.up.slice(0, SHOWN_MOVERS), ...top_movers.down.slice(0, SHOWN_MOVERS)];
  const flips = access.filter(({ gained, lost }) => gained + lost > 0);
  return [
    `${name(change.before)} → ${name(change.after)}: ${count(change.count)} identities, ${count(change.up)} up, ` +
      `${count(change.down)} down, ${count(change.unchanged)} unchanged, ${signed(change.mean_delta)} on average`,
    drawn('rating', RATINGS, Object.values(histogram.before.by_rating), Object.values(histogram.after.by_rating)),
    drawn('score', scores, histogram.before.by_score, histogram.after.by_score),
    ...(moves.length > 0 ? [table(moves)] : []),
    ...(movers.length > 0 ? [table(movers.map(moverRow))] : []),
    ...(flips.length > 0 ? [table(flips.map(({ policy_id, gained, lost }) => ({ policy_id, gained, lost })))] : []),
    `position ${change.position}, as of ${change.as_of}, generation ${change.generation}`,
  ].join('\n\n');
}

/** Two columns of bars with one scale. */
function drawn(what: string, labels: readonly string[], before: readonly number[], after: readonly number[]): string {
  const most = Math.max(1, ...before, ...after);
  const bar = (n: number) => '█'.repeat(n === 0 ? 0 : Math.max(1, Math.round((BAR * n) / most)));
  return table(
    labels.map((label, i) => ({
      [what]: label,
      before: count(before[i]!),
      'before ': bar(before[i]!).padEnd(BAR),
      after: count(after[i]!),
      'after ': bar(after[i]!),
    })),
  );
}

function moverRow({ tris_id, before, after, delta, reasons }: ReplayResultDto['top_movers']['up'][number]) {
  const why = reasons.map(({ metric, before_tct, after_tct }) => `${metric} ${signed(after_tct - before_tct)}`);
  return {
    identity: tris_id,
    before: before.score.toFixed(1),
    after: after.score.toFixed(1),
    change: signed(delta),
    'because of (TCT)': why.slice(0, 3).join(', '),
  };
}

export function signed(value: number): string {
  return value > 0 ? `+${value}` : String(value);
}
