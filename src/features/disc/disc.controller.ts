import { Body, Controller, Get, Inject, Param, Post, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { JsonText, Live, Read } from '../../http/answers.js';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import { POSITION_GATE, type PositionGate } from '../../kernel/positions.js';
import type { Caller } from '../../credentials/caller.js';
import { RequestCaller } from '../../http/controllers.js';
import { Keyed, PublicRead } from '../../http/routes.js';
import { isMisspelled } from '../../kernel/identifiers.js';
import { Problem, problemMembers } from '../../kernel/problems.js';
import { GetChanges } from './change-feed.js';
import { type Coordinates, toCoordinates, toRange } from './coordinates.js';
import {
  ChangesDto,
  CoordinatesQuery,
  DiscRankDto,
  DiscScoreDto,
  ExplanationDto,
  HistoryDto,
  HistoryQuery,
  LiveChangeDto,
  LiveChangesQuery,
  MetricsBatchDto,
  MetricsBatchResultDto,
  MetricsDto,
  MetricsQuery,
  OverviewDto,
  ReportBatchDto,
  ReportBatchResultDto,
  ReportDto,
  ReportQuery,
  ScoreBatchDto,
  ScoreBatchResultDto,
  ScoreDto,
} from './disc.dto.js';
import { GetExplanation, GetHistory, GetMetrics, GetRank, GetReports } from './disc.handlers.js';
import { GetIdentities } from './identity-reader.js';
import { LiveChanges } from './live-changes.js';
import { Overview } from './overview.js';
import { ScoreAnswers, etagPartsOf, score } from './score.js';

const BATCH = 'Each result is what a request for its identity alone would return; a problem with one affects no other.';

@Controller()
export class DiscController {
  private readonly answers = new ScoreAnswers();

  constructor(
    private readonly queries: QueryBus,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(POSITION_GATE) private readonly gate: PositionGate,
    private readonly live: LiveChanges,
    private readonly numbers: Overview,
  ) {}

  @Get('/api/disc-score/:tris_id')
  @PublicRead({
    summary: 'Get the DISC score of an individual',
    description: 'The present score. With a key, by the lens of its organization.',
    etag: true,
    type: DiscScoreDto,
    problems: ['identity_not_found'],
  })
  async discScore(@Param() { tris_id }: TrisIdParams, @RequestCaller() caller: Caller | null) {
    const asked = { trisIds: [tris_id], coordinates: selectorOf(caller) };
    const snapshot = only(await this.queries.execute(new GetIdentities(asked)));
    return new Read(new JsonText(this.answers.of(snapshot)), etagPartsOf(snapshot));
  }

  @Get('/api/disc-rank/:tris_id')
  @PublicRead({
    at: { tris_id: 'tris:lendco' },
    summary: 'Get the rank of a vetted organization',
    description: 'Other organizations have no rank: 404.',
    etag: true,
    type: DiscRankDto,
    problems: ['organization_not_vetted'],
  })
  async discRank(@Param() { tris_id }: TrisIdParams, @RequestCaller() caller: Caller | null) {
    return Read.of(await this.queries.execute(new GetRank({ trisId: tris_id, selector: selectorOf(caller) })));
  }

  @Get('/v1/disc/overview')
  @Keyed({
    scope: 'ops',
    summary:
      'Count identities, actions and organizations, relays and checks of the last hour, and list changes of rating',
    description: 'Relays and checks are those of the process that answers. It answers the same for ten seconds.',
    type: OverviewDto,
  })
  async overview() {
    return this.numbers.get();
  }

  @Get('/v1/disc/score/:tris_id')
  @PublicRead({
    summary: 'Get a score with everything needed to reproduce it',
    description: 'The same lens, model, `as_of` and position always give the same numbers.',
    etag: true,
    type: ScoreDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async score(
    @Param() { tris_id }: TrisIdParams,
    @Query() query: CoordinatesQuery,
    @RequestCaller() caller: Caller | null,
  ) {
    const asked = { trisIds: [tris_id], coordinates: this.coordinates(query, caller) };
    const snapshot = only(await this.queries.execute(new GetIdentities(asked)));
    return new Read(score(snapshot, this.gate.logId), etagPartsOf(snapshot));
  }

  @Get('/v1/disc/score/:tris_id/history')
  @PublicRead({
    summary: 'List the events behind a score, in log order',
    description:
      'Each with the score after it. `from` and `to` limit the time at which the events were recorded: an entry shows ' +
      'the same numbers with and without them.',
    etag: true,
    type: HistoryDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async history(
    @Param() { tris_id }: TrisIdParams,
    @Query() { limit, cursor, from, to, ...query }: HistoryQuery,
    @RequestCaller() caller: Caller | null,
  ) {
    const coordinates = this.coordinates(query, caller);
    const asked = { trisId: tris_id, coordinates, limit, cursor, recorded: toRange({ from, to }) };
    return Read.of(await this.queries.execute(new GetHistory(asked)));
  }

  @Get('/v1/disc/score/:tris_id/explain')
  @PublicRead({
    summary: 'Explain a score: its contributions, and what the next rating requires',
    description: 'Lists the metrics, the platforms and the negative evidence that make up the score.',
    etag: true,
    type: ExplanationDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async explain(
    @Param() { tris_id }: TrisIdParams,
    @Query() query: CoordinatesQuery,
    @RequestCaller() caller: Caller | null,
  ) {
    const coordinates = this.coordinates(query, caller);
    return Read.of(await this.queries.execute(new GetExplanation({ trisId: tris_id, coordinates })));
  }

  @Get('/v1/disc/metrics/:tris_id')
  @PublicRead({
    summary: 'Get the health of categories or metrics, with a proof',
    description: 'The proof is a JWS, which the published keys verify.',
    type: MetricsDto,
    problems: ['identity_not_found', 'policy_not_found', 'unknown_metric'],
  })
  async metrics(
    @Param() { tris_id }: TrisIdParams,
    @Query() { metrics, ...query }: MetricsQuery,
    @RequestCaller() caller: Caller | null,
  ) {
    const coordinates = this.coordinates(query, caller);
    const asked = { trisIds: [tris_id], coordinates, names: metrics, pointer: '?metrics' };
    return only(await this.queries.execute(new GetMetrics(asked)));
  }

  @Get('/v1/disc/report/:tris_id')
  @PublicRead({
    summary: 'Get a report over a window of months, with a proof',
    description: 'The same coordinates, window and depth give the same `report_hash`, and the same ETag.',
    etag: true,
    type: ReportDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async report(
    @Param() { tris_id }: TrisIdParams,
    @Query() { window, depth, ...query }: ReportQuery,
    @RequestCaller() caller: Caller | null,
  ) {
    const asked = { trisIds: [tris_id], coordinates: this.coordinates(query, caller), window, depth };
    const report = only(await this.queries.execute(new GetReports(asked)));
    const { report_hash, bad_status = null, disputed = 0, proof } = report;
    // By disc-1 the hash does not cover the BAD status. The head of the proof names its key, which may be revoked.
    const [proofHead] = proof.split('.');
    return new Read(report, [report_hash, JSON.stringify(bad_status), disputed, proofHead!]);
  }

  @Post('/v1/disc/score/batch')
  @PublicRead({
    example: { tris_ids: ['tris@alice', 'tris:lendco'] },
    counts: 'tris_ids',
    summary: 'Get the scores of up to 100 identities',
    description: BATCH,
    type: ScoreBatchResultDto,
    problems: ['policy_not_found'],
  })
  async scores(@Body() { tris_ids, ...query }: ScoreBatchDto, @RequestCaller() caller: Caller | null) {
    const coordinates = this.coordinates(query, caller, '/');
    const snapshots = await this.queries.execute(new GetIdentities({ trisIds: tris_ids, coordinates }));
    return batch(
      tris_ids,
      snapshots.map((snapshot) => (snapshot instanceof Problem ? snapshot : score(snapshot, this.gate.logId))),
    );
  }

  @Post('/v1/disc/metrics/batch')
  @PublicRead({
    example: { tris_ids: ['tris@alice'], metrics: ['finance', 'security'] },
    counts: 'tris_ids',
    summary: 'Get the metrics of up to 100 identities',
    description: BATCH,
    type: MetricsBatchResultDto,
    problems: ['policy_not_found', 'unknown_metric'],
  })
  async metricsOfMany(
    @Body() { tris_ids, metrics, ...query }: MetricsBatchDto,
    @RequestCaller() caller: Caller | null,
  ) {
    const coordinates = this.coordinates(query, caller, '/');
    const asked = { trisIds: tris_ids, coordinates, names: metrics, pointer: '/metrics' };
    return batch(tris_ids, await this.queries.execute(new GetMetrics(asked)));
  }

  @Post('/v1/disc/report/batch')
  @PublicRead({
    example: { tris_ids: ['tris@alice'], window: 6, depth: 'analysis' },
    counts: 'tris_ids',
    summary: 'Get reports of up to 25 identities',
    description: BATCH,
    type: ReportBatchResultDto,
    problems: ['policy_not_found'],
  })
  async reports(@Body() { tris_ids, window, depth, ...query }: ReportBatchDto, @RequestCaller() caller: Caller | null) {
    const asked = { trisIds: tris_ids, coordinates: this.coordinates(query, caller, '/'), window, depth };
    return batch(tris_ids, await this.queries.execute(new GetReports(asked)));
  }

  @Get('/v1/disc/changes')
  @PublicRead({
    audience: 'feed',
    summary: 'List identities in the order of their last change, as a feed',
    description: 'Needs a key, of any scope, unless the service publishes the feed (`CREDENCE_PUBLIC_READS=all`).',
    type: ChangesDto,
  })
  async changes(@Query() { limit, cursor }: PageQuery, @RequestCaller() caller: Caller | null) {
    return this.queries.execute(new GetChanges({ limit, cursor, selector: selectorOf(caller) }));
  }

  @Get('/v1/disc/changes/stream')
  @PublicRead({
    audience: 'feed',
    live: true,
    summary: 'Get changes as they happen, as server-sent events',
    description:
      'Events: `change` (its data has the schema given here), `reset` (lens, model or log changed: every score may differ, and all ' +
      'identities follow), `heartbeat` every 15 s (data: `{position}`). The id of an event is a cursor of the change feed; ' +
      'with it as `Last-Event-ID` the stream continues without a gap or a repeat. Begins now, unless a cursor is given. A ' +
      'client that reads too slowly gets a comment line and is disconnected; so is one whose key is deleted, whose access token expires, or ' +
      'whose session ends. Needs a key, of any scope, unless the service publishes the feed.',
    type: LiveChangeDto,
    problems: ['identity_not_found', 'too_many_streams', 'shutting_down', 'session_revoked'],
  })
  async liveChanges(@Query() { tris_ids, cursor }: LiveChangesQuery, @RequestCaller() caller: Caller | null) {
    const misspelled = tris_ids?.filter(isMisspelled) ?? [];
    if (misspelled.length > 0) {
      const asked = { trisIds: misspelled, coordinates: selectorOf(caller) };
      for (const answer of await this.queries.execute(new GetIdentities(asked))) only([answer]);
    }
    return new Live(await this.live.stream(caller, cursor, tris_ids ?? null));
  }

  private coordinates(query: CoordinatesQuery, caller: Caller | null, at: '?' | '/' = '?'): Coordinates {
    return toCoordinates(query, this.clock(), at, caller?.organization);
  }
}

/** Selects the default lens of the caller. */
function selectorOf(caller: Caller | null) {
  return { organization: caller?.organization ?? null };
}

/** The answer about a single identity. @throws Problem if that is the answer */
function only<T>([answer]: readonly (T | Problem)[]): T {
  if (answer instanceof Problem) throw answer;
  return answer!;
}

/** One result for each identity, in order. A problem with one identity does not affect the others. */
function batch<T>(trisIds: readonly string[], answers: readonly (T | Problem)[]) {
  const results = answers.map((answer, i) => {
    const tris_id = trisIds[i]!;
    if (!(answer instanceof Problem)) return { tris_id, status: 200, data: answer };
    return { tris_id, status: answer.status, problem: problemMembers(answer) };
  });
  return { results };
}
