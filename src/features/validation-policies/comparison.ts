import type { IdentityState } from '../../../projections/identities.js';
import { STRIDE } from '../../scoring/evidence.js';
import { type Lens, netOf } from '../../scoring/lens.js';
import { CRITICALITIES, RATINGS, type Rating } from '../../scoring/model.js';
import { type Scoring, isLimited } from '../../scoring/models/all.js';
import { netTct, ratingOf, scoreOf } from '../../scoring/score.js';
import type { AccessProbe } from '../access/access-probes.js';
import type { SideDto } from '../disc/disc.dto.js';
import type { AccessChangeDto, MoverDto, ReasonDto, SummaryDto } from './vp.dto.js';

/** The effect of a change of lens on each identity and on the population. Pure; the goal is 300 k identities/s. */

/** Score bins of ten points each; the last includes 100. */
export const BINS = 10;
/** Number of movers and access changes listed in each direction. */
const LISTED = 20;

/** Effect of an action of a metric on the net TCT under both lenses, by criticality. */
interface Effect {
  before: readonly number[];
  after: readonly number[];
}

/** Net TCT is a multiple of ten. Scores of values up to 655,350 are cached. */
const KEPT_SCORES = 65_536;
const RATING_BY_TENTH = Uint8Array.from({ length: 1_001 }, (_, tenth) => RATINGS.indexOf(ratingOf(tenth / 10)));

/** Reads the reasons for what changes of an identity. */
type Reasons = () => Promise<ReasonDto[]>;

/** Compares identities under two lenses, one at a time. The fields belong to the identity compared last. */
export class Comparison {
  netBefore = 0;
  netAfter = 0;
  /** Tenths of a point: whole numbers. */
  before = 0;
  after = 0;
  private readonly effects = new Map<string, Effect>();
  private readonly scores = new Uint16Array(KEPT_SCORES);

  constructor(
    readonly lensBefore: Scoring,
    readonly lensAfter: Scoring,
  ) {}

  compare({ evidence, bad_status }: Pick<IdentityState, 'evidence' | 'bad_status'>): void {
    let before = 0;
    let after = 0;
    for (const metric in evidence) {
      const effect = this.effects.get(metric) ?? this.learn(metric);
      const { days } = evidence[metric]!;
      for (let day = 0; day < days.length; day += STRIDE) {
        for (let c = 0; c < CRITICALITIES.length; c++) {
          const count = days[day + 1 + c]!;
          if (count === 0) continue;
          before += count * effect.before[c]!;
          after += count * effect.after[c]!;
        }
      }
    }
    // If the TCT of a day is limited, the sums over all time are not enough.
    if (isLimited(this.lensBefore)) before = netTct(this.lensBefore.model.ledger(evidence, this.lensBefore));
    if (isLimited(this.lensAfter)) after = netTct(this.lensAfter.model.ledger(evidence, this.lensAfter));
    this.netBefore = before;
    this.netAfter = after;
    if (bad_status === null) {
      this.before = this.tenths(before);
      this.after = before === after ? this.before : this.tenths(after);
    } else this.before = this.after = bad_status.level * 10;
  }

  private learn(metric: string): Effect {
    const under = (lens: Lens) => CRITICALITIES.map((_name, criticality) => netOf(lens, metric, criticality));
    const effect = { before: under(this.lensBefore), after: under(this.lensAfter) };
    this.effects.set(metric, effect);
    return effect;
  }

  private tenths(net: number): number {
    const slot = net / 10;
    if (slot < 0 || slot >= KEPT_SCORES) return Math.round(scoreOf(net) * 10);
    // 0 marks an empty slot: the lowest score of a non-negative net TCT is 7.0.
    return this.scores[slot]! || (this.scores[slot] = Math.round(scoreOf(net) * 10));
  }
}

/** A standing in the form of the API. */
export function side(tenths: number, net: number): SideDto {
  return { score: tenths / 10, score_rating: RATINGS[RATING_BY_TENTH[tenths]!]!, total_tct: Math.max(0, net) };
}

/** Summarizes comparisons. The result does not depend on the order of the identities. */
export class Summarizer {
  readonly comparison: Comparison;
  private count = 0;
  private up = 0;
  private down = 0;
  private deltaTenths = 0;
  private readonly moves = new Float64Array(RATINGS.length ** 2);
  private readonly bins = { before: new Float64Array(BINS), after: new Float64Array(BINS) };
  private readonly risers = new TopList();
  private readonly fallers = new TopList();
  private readonly access: AccessChangeDto[];

  constructor(
    before: Scoring,
    after: Scoring,
    readonly probes: readonly AccessProbe[],
    /** For access, ms. */
    readonly now: number,
  ) {
    this.comparison = new Comparison(before, after);
    const counts = { granted_before: 0, granted_after: 0, gained: 0, lost: 0 };
    this.access = probes.map(({ policy_id }) => ({ policy_id, ...counts, gained_by: [], lost_by: [] }));
  }

  /** @param reasons is asked only if it is listed among the movers */
  add(trisId: string, state: IdentityState, reasons: Reasons): void {
    const { comparison } = this;
    comparison.compare(state);
    const { before, after } = comparison;
    this.count++;
    this.moves[RATING_BY_TENTH[before]! * RATINGS.length + RATING_BY_TENTH[after]!]!++;
    this.bins.before[binOf(before)]!++;
    this.bins.after[binOf(after)]!++;
    const delta = after - before;
    if (delta !== 0) {
      this.deltaTenths += delta;
      if (delta > 0) this.up++;
      else this.down++;
      (delta > 0 ? this.risers : this.fallers).offer(Math.abs(delta), () => this.mover(trisId), trisId, reasons);
    }
    for (let i = 0; i < this.probes.length; i++) this.addAccess(this.probes[i]!, this.access[i]!, trisId, state);
  }

  async summary(): Promise<SummaryDto> {
    const { count, up, down, bins } = this;
    const rating_moves = {} as SummaryDto['rating_moves'];
    const byRating = { before: emptyByRating(), after: emptyByRating() };
    for (const [i, from] of RATINGS.entries()) {
      rating_moves[from] = emptyByRating();
      for (const [j, to] of RATINGS.entries()) {
        const moved = this.moves[i * RATINGS.length + j]!;
        rating_moves[from][to] = moved;
        byRating.before[from] += moved;
        byRating.after[to] += moved;
      }
    }
    return {
      count,
      up,
      down,
      unchanged: count - up - down,
      mean_delta: count === 0 ? 0 : Math.round((1_000 * this.deltaTenths) / count) / 10_000,
      histogram: {
        before: { by_rating: byRating.before, by_score: [...bins.before] },
        after: { by_rating: byRating.after, by_score: [...bins.after] },
      },
      rating_moves,
      top_movers: { up: await this.risers.movers(), down: await this.fallers.movers() },
      access: this.access.map((change) => ({ ...change })),
    };
  }

  private mover(tris_id: string): Omit<MoverDto, 'reasons'> {
    const { before, after, netBefore, netAfter } = this.comparison;
    return { tris_id, before: side(before, netBefore), after: side(after, netAfter), delta: (after - before) / 10 };
  }

  private addAccess(probe: AccessProbe, change: AccessChangeDto, trisId: string, state: IdentityState): void {
    const { lensBefore, lensAfter } = this.comparison;
    const isAffected = probe.lens === null || lensBefore.model !== lensAfter.model;
    const before = probe.grants(state, lensBefore, this.now);
    const after = isAffected ? probe.grants(state, lensAfter, this.now) : before;
    if (before) change.granted_before++;
    if (after) change.granted_after++;
    if (before === after) return;
    change[after ? 'gained' : 'lost']++;
    const listed = change[after ? 'gained_by' : 'lost_by'];
    if (listed.length === LISTED && trisId > listed.at(-1)!) return;
    listed.push(trisId);
    listed.sort();
    listed.length = Math.min(listed.length, LISTED);
  }
}

function emptyByRating(): Record<Rating, number> {
  return Object.fromEntries(RATINGS.map((rating) => [rating, 0])) as Record<Rating, number>;
}

function binOf(tenths: number): number {
  return Math.min(BINS - 1, Math.floor(tenths / 100));
}

/** The largest entries by size, then by TRIS id. */
class TopList {
  private readonly list: { size: number; mover: Omit<MoverDto, 'reasons'>; reasons: Reasons }[] = [];

  offer(size: number, make: () => Omit<MoverDto, 'reasons'>, trisId: string, reasons: Reasons): void {
    const last = this.list.at(-1);
    const isFull = this.list.length === LISTED;
    if (isFull && (size < last!.size || (size === last!.size && trisId > last!.mover.tris_id))) return;
    if (isFull) this.list.pop();
    this.list.push({ size, mover: make(), reasons });
    this.list.sort((a, b) => b.size - a.size || (a.mover.tris_id < b.mover.tris_id ? -1 : 1));
  }

  async movers(): Promise<MoverDto[]> {
    const movers: MoverDto[] = [];
    for (const { mover, reasons } of this.list) movers.push({ ...mover, reasons: await reasons() });
    return movers;
  }
}
