import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { type IdentityRow, identityRow, newIdentity } from '../../../projections/identities.js';
import { type OrganizationRow, organizationRow } from '../../../projections/organizations.js';
import { policyMetricRow } from '../../../projections/policies.js';
import { QueryWith } from '../../commands/messages.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { encodeCursor } from '../../kernel/cursor.js';
import type { JsonObject } from '../../kernel/json.js';
import { type LensSelector, Lenses } from '../lenses/lenses.js';
import { hintOf, Problem } from '../../kernel/problems.js';
import { treeAt } from '../../read-side/log-tree.js';
import { Views } from '../../read-side/views.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import { canonicalMetric } from '../../scoring/names.js';
import { netTct, rankOf } from '../../scoring/score.js';
import type { Coordinates } from './coordinates.js';
import type { DiscRankDto, ExplanationDto, HistoryDto, MetricsDto, ReportDto } from './disc.dto.js';
import { EvidenceReader } from './evidence-reader.js';
import { explain } from './explain.js';
import { RunningStanding, historyEntry, positionIn, tagOf } from './history.js';
import { IdentityReader, type IdentitySnapshot } from './identity-reader.js';
import { isUndocumented, metrics } from './metrics.js';
import { type Depth, type Window, reportOf } from './report.js';
import { coordinatesOf, etagPartsOf } from './score.js';

/** An answer, and what it depends on besides its URL. */
interface QueryAnswer<T> {
  body: T;
  etagParts: (string | number)[];
}

/** Rank and TCT total of a vetted organization. */
export class GetRank extends QueryWith<{ trisId: string; selector: LensSelector }, QueryAnswer<DiscRankDto>> {}

@QueryHandler(GetRank)
export class GetRankHandler implements IQueryHandler<GetRank> {
  constructor(
    private readonly views: Views,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem organization_not_vetted */
  async execute({ input: { trisId, selector } }: GetRank): Promise<QueryAnswer<DiscRankDto>> {
    const queries = [{ get: organizationRow(trisId) }, { get: identityRow(trisId) }, ...this.lenses.queries(selector)];
    const { manifest, results, position, generation } = await this.views.lookUp(
      () => this.views.read(queries),
      (read) => (read.results[0] as OrganizationRow | undefined)?.vetted === true,
    );
    const [organization, row] = results as [OrganizationRow?, IdentityRow?];
    if (!organization?.vetted) {
      const detail = `${trisId} is not a vetted organization; only those have a rank.${hintOf(trisId)}`;
      throw new Problem('organization_not_vetted', detail);
    }
    const lens = await this.lenses.resolve(selector, manifest, results.slice(2));
    const ledger = row && (await new EvidenceReader(this.views, trisId, row, position).ledger(lens));
    const tct_total = ledger ? Math.max(0, netTct(ledger)) : 0;
    const body = { tris_id: trisId, tct_total, disc_rank: rankOf(tct_total) };
    return { body, etagParts: etagPartsOf({ as_of: 0, position, lens, generation }) };
  }
}

/** The events behind a score, in log order, each with the standing after it. */
export class GetHistory extends QueryWith<
  {
    trisId: string;
    coordinates: Coordinates;
    limit: number;
    cursor: string | undefined;
    /** ms: only events that were recorded in this time, both ends included. */
    recorded: { from?: number; to?: number };
  },
  QueryAnswer<HistoryDto>
> {}

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ input }: GetHistory): Promise<QueryAnswer<HistoryDto>> {
    const { trisId, coordinates, limit, cursor, recorded } = input;
    const { reader, lens, generation } = await this.identities.open(trisId, coordinates, cursor !== undefined);
    const { from, to } = recorded;
    const tag = tagOf(trisId, lens, coordinates);
    // The cursor may be of a history without this `from`.
    const after = Math.max(
      cursor === undefined ? 0 : positionIn(cursor, tag),
      from === undefined ? 0 : (await reader.lastRecorded(from - 1)).position,
    );
    const before = after > 0 ? await reader.at(after).state([lens]) : newIdentity();
    const running = RunningStanding.of(before, lens);
    const until = to === undefined ? reader : reader.at((await reader.lastRecorded(to)).position);
    const { policy_id, content_hash } = lens;
    const body: HistoryDto = { tris_id: trisId, lens: { policy_id, content_hash }, entries: [], next_cursor: null };
    const { as_of, position } = reader;
    const answer = { body, etagParts: etagPartsOf({ as_of, position, lens, generation }) };
    if (until.position <= after) return answer;
    let last = after;
    for await (const page of until.events(after)) {
      for (const event of page) {
        if (body.entries.length === limit) {
          body.next_cursor = encodeCursor({ p: last, t: tag });
          return answer;
        }
        body.entries.push(historyEntry(event, running, this.identities.logId));
        last = event.position;
      }
    }
    return answer;
  }
}

/** The contributions to a score. */
export class GetExplanation extends QueryWith<
  { trisId: string; coordinates: Coordinates },
  QueryAnswer<ExplanationDto>
> {}

@QueryHandler(GetExplanation)
export class GetExplanationHandler implements IQueryHandler<GetExplanation> {
  constructor(private readonly identities: IdentityReader) {}

  async execute({ input: { trisId, coordinates } }: GetExplanation): Promise<QueryAnswer<ExplanationDto>> {
    const snapshot = await this.identities.snapshot(trisId, coordinates);
    return { body: await explain(snapshot, this.identities.logId), etagParts: etagPartsOf(snapshot) };
  }
}

/** The health of several identities by name, each with a proof. */
export class GetMetrics extends QueryWith<
  {
    trisIds: readonly string[];
    coordinates: Coordinates;
    names: readonly string[] | undefined;
    /** Pointer to the names, for errors. */
    pointer: string;
  },
  (MetricsDto | Problem)[]
> {}

@QueryHandler(GetMetrics)
export class GetMetricsHandler implements IQueryHandler<GetMetrics> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly keys: SigningKeys,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @throws Problem unknown_metric if no identity has the metrics; if some have, it is the result of the others */
  async execute({ input: { trisIds, coordinates, names, pointer } }: GetMetrics): Promise<(MetricsDto | Problem)[]> {
    const snapshots = await this.identities.snapshots(trisIds, coordinates);
    const weighed = await this.weighedBySomePolicy(names ?? []);
    const all = await answers<MetricsDto>(snapshots, async (snapshot) => {
      const payload = await metrics(snapshot, names, weighed, pointer);
      if (payload instanceof Problem) return payload;
      const timestamp = new Date(this.clock()).toISOString();
      const claims = claimsOf(snapshot, this.identities.logId, timestamp, { payload });
      return { status: 'success', proof: await this.keys.sign(claims, 'credence-metrics+jws'), payload, timestamp };
    });
    const unknown = all.find((answer) => answer instanceof Problem && answer.code === 'unknown_metric');
    if (unknown && all.every((answer) => answer instanceof Problem)) throw unknown;
    return all;
  }

  private async weighedBySomePolicy(names: readonly string[]): Promise<Set<string>> {
    const asked = names.flatMap((name) => canonicalMetric(name) ?? []).filter(isUndocumented);
    if (asked.length === 0) return new Set();
    const { results } = await this.views.read(asked.map((metric) => ({ get: policyMetricRow(metric) })));
    return new Set(asked.filter((_metric, i) => results[i] !== undefined));
  }
}

/** Reports of several identities over a window of months, each with a proof. */
export class GetReports extends QueryWith<
  { trisIds: readonly string[]; coordinates: Coordinates; window: Window; depth: Depth },
  (ReportDto | Problem)[]
> {}

@QueryHandler(GetReports)
export class GetReportsHandler implements IQueryHandler<GetReports> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly keys: SigningKeys,
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async execute({ input: { trisIds, coordinates, window, depth } }: GetReports): Promise<(ReportDto | Problem)[]> {
    const snapshots = await this.identities.snapshots(trisIds, coordinates);
    const { logId } = this.identities;
    return answers(snapshots, async (snapshot) => {
      const report = await reportOf(snapshot, window, depth, logId);
      const { report_id, report_hash, bad_status } = report;
      const log_tree = await treeAt(this.views, snapshot.position);
      const timestamp = new Date(this.clock()).toISOString();
      const badStatus = bad_status && { bad_status: { ...bad_status } };
      const statement = { report_id, report_hash, ...badStatus, ...(log_tree && { log_tree }) };
      const claims = claimsOf(snapshot, logId, timestamp, statement);
      return { ...report, proof: await this.keys.sign(claims, 'credence-report+jws'), generated_at: timestamp };
    });
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
