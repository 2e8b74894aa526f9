import { Inject } from '@nestjs/common';
import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { type CredonationRow, credonationsOf } from '../../../projections/credonations.js';
import { type IdentityRow, identityRow } from '../../../projections/identities.js';
import { type OrganizationRow, organizationRow } from '../../../projections/organizations.js';
import { policyMetricRow } from '../../../projections/policies.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf } from '../../../projections/timeline.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { decodeCursor, encodeCursor } from '../../kernel/cursor.js';
import type { JsonObject } from '../../kernel/json.js';
import { type LensSelector, Lenses } from '../lenses/lenses.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { canonicalMetric, categoryOf } from '../../scoring/names.js';
import { netTct, rankOf } from '../../scoring/score.js';
import { ChangeFeed, isFeedCursor, isSameScope } from './change-feed.js';
import type { Coordinates } from './coordinates.js';
import type { ChangesDto, DiscRankDto, ExplanationDto, HistoryDto, MetricsDto, ReportDto } from './disc.dto.js';
import { explain, partsOf } from './explain.js';
import { RunningStanding, historyEntry } from './history.js';
import { IdentityReader, type IdentitySnapshot, type IdentityViewpoint, type Viewpoint } from './identity-reader.js';
import { ledgerOfRow, readLedger } from './ledgers.js';
import { isUndocumented, metrics } from './metrics.js';
import { type Depth, ReportBuilder, type Window, addSums } from './report.js';
import { coordinatesOf } from './score.js';

/** An answer and the viewpoint that it depends on. */
export interface QueryAnswer<T> {
  body: T;
  viewpoint: Viewpoint;
}

/** An identity's state as of a viewpoint, from which scores and metrics are computed. */
export class GetIdentity extends Query<IdentitySnapshot> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
  ) {
    super();
  }
}

@QueryHandler(GetIdentity)
export class GetIdentityHandler implements IQueryHandler<GetIdentity> {
  constructor(private readonly identities: IdentityReader) {}

  execute({ trisId, coordinates }: GetIdentity): Promise<IdentitySnapshot> {
    return this.identities.snapshot(trisId, coordinates);
  }
}

/** Several identities as of the same viewpoint. */
export class GetIdentities extends Query<(IdentitySnapshot | Problem)[]> {
  constructor(
    readonly trisIds: readonly string[],
    readonly coordinates: Coordinates,
  ) {
    super();
  }
}

@QueryHandler(GetIdentities)
export class GetIdentitiesHandler implements IQueryHandler<GetIdentities> {
  constructor(private readonly identities: IdentityReader) {}

  execute({ trisIds, coordinates }: GetIdentities): Promise<(IdentitySnapshot | Problem)[]> {
    return this.identities.snapshots(trisIds, coordinates);
  }
}

/** Rank and TCT total of a vetted organization. */
export class GetRank extends Query<QueryAnswer<DiscRankDto>> {
  constructor(
    readonly trisId: string,
    readonly selector: LensSelector,
  ) {
    super();
  }
}

@QueryHandler(GetRank)
export class GetRankHandler implements IQueryHandler<GetRank> {
  constructor(
    private readonly views: Views,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem organization_not_vetted */
  async execute({ trisId, selector }: GetRank): Promise<QueryAnswer<DiscRankDto>> {
    const queries = [{ get: organizationRow(trisId) }, { get: identityRow(trisId) }, ...this.lenses.queries(selector)];
    const { manifest, results, position, generation } = await this.views.lookUp(
      () => this.views.read(queries),
      (read) => (read.results[0] as OrganizationRow | undefined)?.vetted === true,
    );
    const [organization, row] = results as [OrganizationRow?, IdentityRow?];
    if (!organization?.vetted) {
      throw new Problem('organization_not_vetted', `${trisId} is not a vetted organization; only those have a rank.`);
    }
    const lens = await this.lenses.resolve(selector, manifest, results.slice(2));
    const own = row && ledgerOfRow(row, lens);
    const read = row && !own ? await readLedger(this.views, trisId, lens, position) : undefined;
    const ledger = own ?? read?.ledger;
    const tct_total = ledger ? Math.max(0, netTct(ledger)) : 0;
    const body = { tris_id: trisId, tct_total, disc_rank: rankOf(tct_total) };
    return { body, viewpoint: { as_of: 0, position: read?.position ?? position, lens, generation } };
  }
}

/** The events behind a score, in log order, each with the standing after it. */
export class GetHistory extends Query<QueryAnswer<HistoryDto>> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
    readonly limit: number,
    readonly cursor: string | undefined,
    /** ms: only events that were recorded in this time, both ends included. */
    readonly recorded: { from?: number; to?: number } = {},
  ) {
    super();
  }
}

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ trisId, coordinates, limit, cursor, recorded }: GetHistory): Promise<QueryAnswer<HistoryDto>> {
    const viewpoint = await this.identities.viewpoint(trisId, coordinates, cursor !== undefined);
    const { lens } = viewpoint;
    const { from, to } = recorded;
    const { running, after } =
      cursor === undefined && from !== undefined
        ? await this.standingBefore(viewpoint, from)
        : await RunningStanding.resume(cursor, trisId, lens, coordinates, (position) =>
            this.identities.evidenceAt(viewpoint, position),
          );
    const position = to === undefined ? viewpoint.position : await this.identities.lastRecorded(viewpoint, to);
    const body: HistoryDto = {
      tris_id: trisId,
      lens: { policy_id: lens.policy_id, content_hash: lens.content_hash },
      entries: [],
      next_cursor: null,
    };
    if (position <= after) return { body, viewpoint };
    let last = after;
    for await (const page of this.identities.events(trisId, { ...viewpoint, position }, after)) {
      for (const event of page) {
        if (body.entries.length === limit) {
          body.next_cursor = running.cursorAt(last, trisId, coordinates);
          return { body, viewpoint };
        }
        body.entries.push(historyEntry(event, running, this.identities.logId));
        last = event.position;
      }
    }
    return { body, viewpoint };
  }

  /** The standing after the last event that was recorded before a time. */
  private async standingBefore(viewpoint: IdentityViewpoint, from: number) {
    const after = await this.identities.lastRecorded(viewpoint, from - 1);
    const { evidence, bad_status } = await this.identities.stateAfter(viewpoint, after);
    return { running: RunningStanding.of(evidence, bad_status, viewpoint.lens), after };
  }
}

/** The contributions to a score. */
export class GetExplanation extends Query<QueryAnswer<ExplanationDto>> {
  constructor(
    readonly trisId: string,
    readonly coordinates: Coordinates,
  ) {
    super();
  }
}

@QueryHandler(GetExplanation)
export class GetExplanationHandler implements IQueryHandler<GetExplanation> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ trisId, coordinates }: GetExplanation): Promise<QueryAnswer<ExplanationDto>> {
    const snapshot = await this.identities.snapshot(trisId, coordinates);
    const parts = await partsOf(this.identities, snapshot);
    return { body: await explain(snapshot, parts, this.identities.logId), viewpoint: snapshot };
  }
}

/** The health of several identities by name, each with a proof. */
export class GetMetrics extends Query<(MetricsDto | Problem)[]> {
  constructor(
    readonly trisIds: readonly string[],
    readonly coordinates: Coordinates,
    readonly names: readonly string[] | undefined,
    /** Pointer to the names, for errors. */
    readonly pointer: string,
  ) {
    super();
  }
}

/** The maximum number of an identity's metrics that a refusal lists. */
const LISTED_METRICS = 1_000;

@QueryHandler(GetMetrics)
export class GetMetricsHandler implements IQueryHandler<GetMetrics> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @throws Problem unknown_metric if no identity has the metrics; if some have, it is the result of the others */
  async execute({ trisIds, coordinates, names, pointer }: GetMetrics): Promise<(MetricsDto | Problem)[]> {
    const snapshots = await this.identities.snapshots(trisIds, coordinates);
    const weighed = await this.weighedBySomePolicy(names ?? []);
    const all = await answers<MetricsDto>(snapshots, async (snapshot) => {
      const payload = await this.payload(snapshot, names, weighed, pointer);
      if (payload instanceof Problem) return payload;
      const timestamp = new Date(this.clock()).toISOString();
      const claims = claimsOf(snapshot, this.identities.logId, timestamp, { payload });
      return { status: 'success', proof: await this.keys.sign(claims, 'credence-metrics+jws'), payload, timestamp };
    });
    const unknown = all.find((answer) => answer instanceof Problem && answer.code === 'unknown_metric');
    if (unknown && all.every((answer) => answer instanceof Problem)) throw unknown;
    return all;
  }

  private async payload(
    snapshot: IdentitySnapshot,
    names: readonly string[] | undefined,
    weighed: ReadonlySet<string>,
    pointer: string,
  ): Promise<Record<string, number> | Problem> {
    const { large, state } = snapshot;
    if (!large) return metrics(snapshot, names, weighed, pointer, state.evidence, Object.keys(state.evidence));
    const asked = (names ?? []).flatMap((name) => (categoryOf(name) ? [] : (canonicalMetric(name) ?? [])));
    const evidence = await this.identities.evidence.ofMetrics(large, asked);
    const payload = metrics(snapshot, names, weighed, pointer, evidence, []);
    if (!(payload instanceof Problem)) return payload;
    const recorded = await this.identities.evidence.metrics(large, LISTED_METRICS);
    const known = Object.keys(await this.identities.evidence.ofMetrics(large, recorded));
    return metrics(snapshot, names, weighed, pointer, evidence, known);
  }

  private async weighedBySomePolicy(names: readonly string[]): Promise<Set<string>> {
    const asked = names.flatMap((name) => canonicalMetric(name) ?? []).filter(isUndocumented);
    if (asked.length === 0) return new Set();
    const { results } = await this.views.read(asked.map((metric) => ({ get: policyMetricRow(metric) })));
    return new Set(asked.filter((_metric, i) => results[i] !== undefined));
  }
}

/** Reports of several identities over a window of months, each with a proof. */
export class GetReports extends Query<(ReportDto | Problem)[]> {
  constructor(
    readonly trisIds: readonly string[],
    readonly coordinates: Coordinates,
    readonly window: Window,
    readonly depth: Depth,
  ) {
    super();
  }
}

@QueryHandler(GetReports)
export class GetReportsHandler implements IQueryHandler<GetReports> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async execute({ trisIds, coordinates, window, depth }: GetReports): Promise<(ReportDto | Problem)[]> {
    const snapshots = await this.identities.snapshots(trisIds, coordinates);
    return answers(snapshots, (snapshot) => this.report(snapshot, window, depth));
  }

  private async report(snapshot: IdentitySnapshot, window: Window, depth: Depth): Promise<ReportDto> {
    const builder = new ReportBuilder(snapshot, window, depth);
    if (snapshot.large) await addSums(builder, this.identities, snapshot, snapshot.large);
    else {
      for await (const page of this.identities.events(snapshot.tris_id, snapshot)) {
        for (const event of page) builder.addEvent(event);
      }
      for await (const row of credonationsUpTo(this.views, snapshot)) builder.addCredonation(row);
    }
    const report = await builder.build(this.identities.logId);
    const { report_id, report_hash, bad_status } = report;
    const timestamp = new Date(this.clock()).toISOString();
    const claims = claimsOf(snapshot, this.identities.logId, timestamp, {
      report_id,
      report_hash,
      ...(bad_status && { bad_status: { ...bad_status } }),
    });
    return { ...report, proof: await this.keys.sign(claims, 'credence-report+jws'), generated_at: timestamp };
  }
}

/** The claims of a proof: a statement about an identity, its time, and the four coordinates that reproduce it. */
function claimsOf(snapshot: IdentitySnapshot, logId: string, timestamp: string, statement: JsonObject): JsonObject {
  return { sub: snapshot.tris_id, ...statement, timestamp, ...coordinatesOf(snapshot, logId) };
}

/** An answer for each snapshot; problems are passed through. */
async function answers<T>(
  snapshots: readonly (IdentitySnapshot | Problem)[],
  answer: (snapshot: IdentitySnapshot) => T | Problem | Promise<T | Problem>,
): Promise<(T | Problem)[]> {
  const all: (T | Problem)[] = [];
  for (const snapshot of snapshots) all.push(snapshot instanceof Problem ? snapshot : await answer(snapshot));
  return all;
}

/** Identities in the order of their last change, each once, with its current score. */
export class GetChanges extends Query<ChangesDto> {
  constructor(
    readonly limit: number,
    readonly cursor: string | undefined,
    readonly selector: LensSelector,
  ) {
    super();
  }
}

@QueryHandler(GetChanges)
export class GetChangesHandler implements IQueryHandler<GetChanges> {
  constructor(private readonly feed: ChangeFeed) {}

  async execute({ limit, cursor, selector }: GetChanges): Promise<ChangesDto> {
    const from = cursor === undefined ? undefined : decodeCursor(cursor, isFeedCursor);
    let part = await this.feed.after(from?.p ?? 0, limit, selector);
    const reset = from !== undefined && !isSameScope(from, part.scope);
    if (reset) part = await this.feed.after(0, limit, selector);
    return {
      changes: part.changes.map(({ tris_id, score, total_tct, position }) => ({ tris_id, score, total_tct, position })),
      next_cursor: encodeCursor({ p: part.last, ...part.scope }),
      ...(reset && { reset }),
    };
  }
}

/** Rows per read: about a millisecond of work. */
const PAGE = 256;

/**
 * A credonation counts with its action, which precedes it in the same append. So a viewpoint at the position of an
 * action includes the credonations before the identity's next event.
 */
async function* credonationsUpTo(views: Views, { tris_id, position }: IdentitySnapshot): AsyncIterable<CredonationRow> {
  const following = { ...timelineOf(tris_id), after: sortByPosition(position), limit: 1 };
  for (let last = 0; ;) {
    const range = { ...credonationsOf(tris_id), after: sortByPosition(last), limit: PAGE };
    await yieldIfDue();
    const { results } = await views.readSince(position, [{ range }, { range: following }]);
    const [rows, [next]] = results as [RangeRow[], RangeRow[]];
    for (const { sort, value } of rows) {
      if (next && sort >= next.sort) return;
      yield value as CredonationRow;
    }
    if (rows.length < PAGE) return;
    last = Number(rows.at(-1)!.sort);
  }
}
