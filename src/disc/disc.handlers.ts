import { Inject } from '@nestjs/common';
import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { type CredonationRow, credonationsOf } from '../../projections/credonations.js';
import { CHANGES, type IdentityState, identityRow } from '../../projections/identities.js';
import type { IdentityEvent } from '../../projections/identity-events.js';
import { type OrganizationRow, organizationRow } from '../../projections/organizations.js';
import { sortByPosition } from '../../projections/projection.js';
import { timelineOf } from '../../projections/timeline.js';
import { CLOCK, type Clock } from '../clock.js';
import { decodeCursor, encodeCursor } from '../http/cursor.js';
import { formatPosition } from '../http/positions.js';
import { Problem } from '../problems.js';
import { Views } from '../projector/views.js';
import { SigningKeys } from '../proofs/signing-keys.js';
import type { RangeRow } from '../read-models/read-models.js';
import { MODEL_LENS } from '../scoring/lens.js';
import { MODEL_HASH } from '../scoring/model.js';
import { ledgerOf, netTct, rankOf, standingOf } from '../scoring/score.js';
import type { Coordinates } from './coordinates.js';
import type { ChangesDto, DiscRankDto, ExplanationDto, HistoryDto, MetricsDto, ReportDto } from './disc.dto.js';
import { PlatformShares, explain } from './explain.js';
import { RunningStanding, historyEntry } from './history.js';
import { IdentityReader, type Sight, type Viewpoint } from './identity-reader.js';
import { metrics } from './metrics.js';
import { type Depth, ReportBuilder, type Window } from './report.js';
import { coordinatesOf } from './score.js';

/** An answer and what it is a function of. */
export interface Seen<T> {
  body: T;
  viewpoint: Viewpoint;
}

/** An identity's state as of a viewpoint: what the scores and metrics are computed from. */
export class SeeIdentity extends Query<Sight> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
  ) {
    super();
  }
}

@QueryHandler(SeeIdentity)
export class SeeIdentityHandler implements IQueryHandler<SeeIdentity> {
  constructor(private readonly identities: IdentityReader) {}

  execute({ trisId, coordinates }: SeeIdentity): Promise<Sight> {
    return this.identities.see(trisId, coordinates);
  }
}

/** Rank and TCT total of a vetted organization. */
export class GetRank extends Query<Seen<DiscRankDto>> {
  constructor(readonly trisId: string) {
    super();
  }
}

@QueryHandler(GetRank)
export class GetRankHandler implements IQueryHandler<GetRank> {
  constructor(private readonly views: Views) {}

  /** @throws Problem organization_not_vetted */
  async execute({ trisId }: GetRank): Promise<Seen<DiscRankDto>> {
    const { results, position, generation } = await this.views.read([
      { get: organizationRow(trisId) },
      { get: identityRow(trisId) },
    ]);
    const [organization, state] = results as unknown as [OrganizationRow?, IdentityState?];
    if (!organization?.vetted) {
      throw new Problem('organization_not_vetted', `${trisId} is not a vetted organization; only those have a rank.`);
    }
    const tct_total = state ? Math.max(0, netTct(ledgerOf(state.evidence, MODEL_LENS))) : 0;
    const body = { tris_id: trisId, tct_total, disc_rank: rankOf(tct_total) };
    return { body, viewpoint: { as_of: 0, position, lens: MODEL_LENS, generation } };
  }
}

/** The events that made a score, in log order, each with the standing it left. */
export class GetHistory extends Query<Seen<HistoryDto>> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
    readonly limit: number,
    readonly cursor: string | undefined,
  ) {
    super();
  }
}

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ trisId, coordinates, limit, cursor }: GetHistory): Promise<Seen<HistoryDto>> {
    const sight = await this.identities.see(trisId, coordinates);
    const { lens } = sight;
    const { running, after } = RunningStanding.resume(cursor, trisId, lens);
    const body: HistoryDto = {
      tris_id: trisId,
      lens: { policy_id: lens.policy_id, content_hash: lens.content_hash },
      entries: [],
      next_cursor: null,
    };
    let last = after;
    for await (const page of this.identities.events(trisId, sight, after)) {
      for (const event of page) {
        if (body.entries.length === limit) {
          body.next_cursor = running.cursorAt(last, trisId);
          return { body, viewpoint: sight };
        }
        body.entries.push(historyEntry(event, running, this.identities.logId));
        last = event.position;
      }
    }
    return { body, viewpoint: sight };
  }
}

/** What a score is made of. */
export class GetExplanation extends Query<Seen<ExplanationDto>> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
  ) {
    super();
  }
}

const EXPLAINED_PLATFORMS = 100;

@QueryHandler(GetExplanation)
export class GetExplanationHandler implements IQueryHandler<GetExplanation> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ trisId, coordinates }: GetExplanation): Promise<Seen<ExplanationDto>> {
    const sight = await this.identities.see(trisId, coordinates);
    const platforms = new PlatformShares(sight.lens);
    await each(this.identities.events(trisId, sight), (event) => platforms.add(event));
    return { body: explain(sight, platforms.top(EXPLAINED_PLATFORMS), this.identities.logId), viewpoint: sight };
  }
}

/** Health by name, with a proof. */
export class GetMetrics extends Query<MetricsDto> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
    readonly names: readonly string[] | undefined,
    /** Of the names, for errors. */
    readonly pointer: string,
  ) {
    super();
  }
}

@QueryHandler(GetMetrics)
export class GetMetricsHandler implements IQueryHandler<GetMetrics> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @throws Problem unknown_metric */
  async execute({ trisId, coordinates, names, pointer }: GetMetrics): Promise<MetricsDto> {
    const sight = await this.identities.see(trisId, coordinates);
    const payload = metrics(sight, names, pointer);
    const timestamp = new Date(this.clock()).toISOString();
    const claims = { sub: trisId, payload, timestamp, ...coordinatesOf(sight, this.identities.logId) };
    return { status: 'success', proof: this.keys.sign(claims, 'credence-metrics+jws'), payload, timestamp };
  }
}

/** A report over a window of months, with a proof. */
export class GetReport extends Query<ReportDto> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
    readonly window: Window,
    readonly depth: Depth,
  ) {
    super();
  }
}

@QueryHandler(GetReport)
export class GetReportHandler implements IQueryHandler<GetReport> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async execute({ trisId, coordinates, window, depth }: GetReport): Promise<ReportDto> {
    const sight = await this.identities.see(trisId, coordinates);
    const builder = new ReportBuilder(sight, window, depth);
    await each(this.identities.events(trisId, sight), (event) => builder.addEvent(event));
    for await (const row of credonationsUpTo(this.views, sight)) builder.addCredonation(row);
    const report = builder.build(this.identities.logId);
    const { report_id, report_hash, lens, model, as_of, position } = report;
    const timestamp = new Date(this.clock()).toISOString();
    const claims = {
      sub: trisId,
      report_id,
      report_hash,
      timestamp,
      lens: { ...lens },
      model: { ...model },
      as_of,
      position,
    };
    return { ...report, proof: this.keys.sign(claims, 'credence-report+jws'), generated_at: timestamp };
  }
}

/** Identities in the order of their last change, each once, with its present score. */
export class GetChanges extends Query<ChangesDto> {
  constructor(
    readonly limit: number,
    readonly cursor: string | undefined,
  ) {
    super();
  }
}

/** Changes to look at for one answer: most may be superseded, so an answer may hold few or none before the end. */
const LOOKED_AT = 10_000;

@QueryHandler(GetChanges)
export class GetChangesHandler implements IQueryHandler<GetChanges> {
  constructor(private readonly views: Views) {}

  async execute({ limit, cursor }: GetChanges): Promise<ChangesDto> {
    const scope = { g: this.views.logId, l: MODEL_LENS.content_hash, m: MODEL_HASH };
    const from = cursor === undefined ? undefined : decodeCursor(cursor, isChangesCursor);
    const reset = from !== undefined && (from.g !== scope.g || from.l !== scope.l || from.m !== scope.m);
    let last = from === undefined || reset ? 0 : from.p;
    const changes: ChangesDto['changes'] = [];
    for (let looked = 0; changes.length < limit && looked < LOOKED_AT;) {
      const range = { ...CHANGES, after: sortByPosition(last), limit: PAGE };
      const rows = (await this.views.read([{ range }])).results[0] as RangeRow[];
      if (rows.length === 0) break;
      const { results } = await this.views.read(rows.map(({ value }) => ({ get: identityRow(value as string) })));
      for (const [i, { sort, value }] of rows.entries()) {
        if (changes.length === limit) break;
        last = Number(sort);
        const state = results[i] as unknown as IdentityState;
        if (state.changed !== last) continue; // it changed again: it comes later
        const { score, total_tct } = standingOf(ledgerOf(state.evidence, MODEL_LENS), state.bad_status?.level ?? null);
        changes.push({ tris_id: value as string, score, total_tct, position: formatPosition(this.views.logId, last) });
      }
      looked += rows.length;
    }
    return { changes, next_cursor: encodeCursor({ p: last, ...scope }), ...(reset && { reset }) };
  }
}

interface ChangesCursor {
  p: number;
  g: string;
  l: string;
  m: string;
}

function isChangesCursor(state: unknown): state is ChangesCursor {
  if (typeof state !== 'object' || state === null) return false;
  const { p, g, l, m } = state as ChangesCursor;
  return Number.isSafeInteger(p) && p >= 0 && [g, l, m].every((part) => typeof part === 'string');
}

async function each(pages: AsyncIterable<IdentityEvent[]>, visit: (event: IdentityEvent) => void): Promise<void> {
  for await (const page of pages) page.forEach(visit);
}

const PAGE = 1_000;

/**
 * A credonation counts with its action, which stands just before it in the same append: a viewpoint at the position of an
 * action reaches to the identity's next event.
 */
async function* credonationsUpTo(views: Views, { tris_id, position }: Sight): AsyncIterable<CredonationRow> {
  const following = { ...timelineOf(tris_id), after: sortByPosition(position), limit: 1 };
  for (let last = 0; ;) {
    const range = { ...credonationsOf(tris_id), after: sortByPosition(last), limit: PAGE };
    const { results } = await views.read([{ range }, { range: following }]);
    const [rows, [next]] = results as [RangeRow[], RangeRow[]];
    for (const { sort, value } of rows) if (!next || sort < next.sort) yield value as unknown as CredonationRow;
    if (rows.length < PAGE) return;
    last = Number(rows.at(-1)!.sort);
  }
}
