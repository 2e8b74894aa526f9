import { Inject, Injectable, Optional } from '@nestjs/common';
import { Registry } from 'prom-client';
import { CHANGES } from '../../../projections/identities.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import type { LargestCounter } from '../../kernel/largest-counter.js';
import { formatPosition, positionOf } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import type { Scoring } from '../../scoring/models/all.js';
import { READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import { RunningStanding } from './history.js';
import { IdentityReader } from './identity-reader.js';
import type { LatestRatingChangeDto, OverviewDto } from './disc.dto.js';

/** Identities whose last events are looked at for changes of rating, and how many events of each. */
const LATEST = 50;
const EVENTS = 64;
/** Changes of rating that are shown. */
const SHOWN = 8;
/** An answer is the same for so long, since counting rows takes long. ms. */
const KEPT_MS = 10_000;

/** How much there is, and what has happened. */
@Injectable()
export class Overview {
  private last: Promise<OverviewDto> | undefined;

  constructor(
    private readonly views: Views,
    private readonly reader: IdentityReader,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
    @Optional() private readonly registry?: Registry,
  ) {}

  /** @throws Problem projection_rebuilding */
  get(): Promise<OverviewDto> {
    if (this.last) return this.last;
    const forget = () => (this.last = undefined);
    this.last = this.look();
    this.last.then(() => setTimeout(forget, KEPT_MS).unref(), forget);
    return this.last;
  }

  private async look(): Promise<OverviewDto> {
    const { views } = await this.views.manifest();
    const count = (view: string) => this.readModels.count(views[view]!, view);
    const minutesOf = (metric: string) =>
      (this.registry?.getSingleMetric(metric) as Partial<LargestCounter<string>> | undefined)?.minutes;
    const [relays, checks] = [minutesOf('credence_relays_total'), minutesOf('credence_checks_total')];
    const last = Math.floor(Date.now() / 60_000);
    return {
      identities: await count('identities'),
      actions: views['actions'] ? await count('actions') : null,
      organizations: await count('organizations'),
      minutes: Array.from({ length: 60 }, (_, i) => last - 59 + i).map((minute) => ({
        at: new Date(minute * 60_000).toISOString(),
        relayed: relays?.get(minute)?.get('accepted') ?? 0,
        granted: checks?.get(minute)?.get('granted') ?? 0,
        denied: checks?.get(minute)?.get('denied') ?? 0,
      })),
      rating_changes: await this.ratingChanges(),
    };
  }

  private async ratingChanges(): Promise<LatestRatingChangeDto[]> {
    const rows = await this.views.range({ ...CHANGES, reverse: true, limit: LATEST });
    const found: LatestRatingChangeDto[] = [];
    const ids = rows.map(({ value }) => value as string);
    for (const snapshot of await this.reader.snapshots(ids, {})) {
      if (!(snapshot instanceof Problem)) found.push(...(await this.lastOf(snapshot.tris_id, snapshot.lens)));
      await yieldIfDue();
    }
    return found.sort((a, b) => (a.recorded_at < b.recorded_at ? 1 : -1)).slice(0, SHOWN);
  }

  /** The last change of the rating within the last events of an identity, if there is one. */
  private async lastOf(tris_id: string, lens: Scoring): Promise<LatestRatingChangeDto[]> {
    const rows = await this.views.range({ ...timelineOf(tris_id), reverse: true, limit: EVENTS + 1 });
    const events = rows.map(({ sort, value }) => unpack(tris_id, positionOf(sort), value)).reverse();
    let running = new RunningStanding(lens);
    if (events.length > EVENTS) {
      const as_of_position = formatPosition(this.views.logId, events.shift()!.position);
      const [before] = await this.reader.snapshots([tris_id], { as_of_position });
      if (before && !(before instanceof Problem)) running = RunningStanding.of(before.state, lens);
    }
    let last: LatestRatingChangeDto[] = [];
    for (const event of events) {
      const from = running.standing.score_rating;
      running.apply(event);
      const { score_rating: to, score } = running.standing;
      if (to !== from) last = [{ tris_id, recorded_at: new Date(event.recorded_at).toISOString(), from, to, score }];
    }
    return last;
  }
}
