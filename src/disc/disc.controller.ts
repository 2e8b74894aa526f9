import { Body, Controller, Get, Inject, Param, Post, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../clock.js';
import { Read } from '../http/answers.js';
import { TrisIdParams } from '../http/common.dto.js';
import { problemMembers } from '../http/problem-response.js';
import { POSITION_GATE, type PositionGate } from '../http/positions.js';
import { PublicRead } from '../http/routes.js';
import { Problem } from '../problems.js';
import { type CoordinateParameters, type Coordinates, toCoordinates } from './coordinates.js';
import {
  ChangesDto,
  ChangesQuery,
  CoordinatesQuery,
  DiscRankDto,
  DiscScoreDto,
  ExplanationDto,
  HistoryDto,
  HistoryQuery,
  MetricsBatchDto,
  MetricsBatchResultDto,
  MetricsDto,
  MetricsQuery,
  ReportBatchDto,
  ReportBatchResultDto,
  ReportDto,
  ReportQuery,
  ScoreBatchDto,
  ScoreBatchResultDto,
  ScoreDto,
} from './disc.dto.js';
import {
  GetChanges,
  GetExplanation,
  GetHistory,
  GetMetrics,
  GetRank,
  GetReport,
  SeeIdentity,
  type Seen,
} from './disc.handlers.js';
import { discScore, etagOf, score } from './score.js';

@Controller()
export class DiscController {
  constructor(
    private readonly queries: QueryBus,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(POSITION_GATE) private readonly gate: PositionGate,
  ) {}

  @Get('/api/disc-score/:tris_id')
  @PublicRead({ summary: 'DISC score of an individual', type: DiscScoreDto, problems: ['identity_not_found'] })
  async discScore(@Param() { tris_id }: TrisIdParams) {
    const sight = await this.queries.execute(new SeeIdentity(tris_id, {}));
    return new Read(discScore(sight), etagOf(sight));
  }

  @Get('/api/disc-rank/:tris_id')
  @PublicRead({ summary: 'Rank of a vetted organization', type: DiscRankDto, problems: ['organization_not_vetted'] })
  async discRank(@Param() { tris_id }: TrisIdParams) {
    return seen(await this.queries.execute(new GetRank(tris_id)));
  }

  @Get('/v1/disc/score/:tris_id')
  @PublicRead({
    summary: 'Score with everything that makes it reproducible',
    type: ScoreDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async score(@Param() { tris_id }: TrisIdParams, @Query() query: CoordinatesQuery) {
    const sight = await this.queries.execute(new SeeIdentity(tris_id, this.coordinates(query)));
    return new Read(score(sight, this.gate.logId), etagOf(sight));
  }

  @Get('/v1/disc/score/:tris_id/history')
  @PublicRead({
    summary: 'The events that made a score, in log order',
    type: HistoryDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async history(@Param() { tris_id }: TrisIdParams, @Query() { limit, cursor, ...query }: HistoryQuery) {
    return seen(await this.queries.execute(new GetHistory(tris_id, this.coordinates(query), limit, cursor)));
  }

  @Get('/v1/disc/score/:tris_id/explain')
  @PublicRead({
    summary: 'What a score is made of, and what is missing to the next rating',
    type: ExplanationDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async explain(@Param() { tris_id }: TrisIdParams, @Query() query: CoordinatesQuery) {
    return seen(await this.queries.execute(new GetExplanation(tris_id, this.coordinates(query))));
  }

  @Get('/v1/disc/metrics/:tris_id')
  @PublicRead({
    summary: 'Health of categories or metrics, with a proof',
    type: MetricsDto,
    problems: ['identity_not_found', 'policy_not_found', 'unknown_metric'],
  })
  async metrics(@Param() { tris_id }: TrisIdParams, @Query() { metrics, ...query }: MetricsQuery) {
    return this.queries.execute(new GetMetrics(tris_id, this.coordinates(query), metrics, '?metrics'));
  }

  @Get('/v1/disc/report/:tris_id')
  @PublicRead({
    summary: 'Report over a window of months, with a proof',
    type: ReportDto,
    problems: ['identity_not_found', 'policy_not_found'],
  })
  async report(@Param() { tris_id }: TrisIdParams, @Query() { window, depth, ...query }: ReportQuery) {
    return this.queries.execute(new GetReport(tris_id, this.coordinates(query), window, depth));
  }

  @Post('/v1/disc/score/batch')
  @PublicRead({
    summary: 'Scores of up to 100 identities',
    type: ScoreBatchResultDto,
    problems: ['batch_too_large', 'policy_not_found'],
  })
  async scores(@Body() { tris_ids, ...query }: ScoreBatchDto) {
    const coordinates = this.coordinates(query, '/');
    return inOrder(tris_ids, async (id) =>
      score(await this.queries.execute(new SeeIdentity(id, coordinates)), this.gate.logId),
    );
  }

  @Post('/v1/disc/metrics/batch')
  @PublicRead({
    summary: 'Metrics of up to 100 identities',
    type: MetricsBatchResultDto,
    problems: ['batch_too_large', 'policy_not_found', 'unknown_metric'],
  })
  async metricsOfMany(@Body() { tris_ids, metrics, ...query }: MetricsBatchDto) {
    const coordinates = this.coordinates(query, '/');
    return inOrder(tris_ids, (id) => this.queries.execute(new GetMetrics(id, coordinates, metrics, '/metrics')));
  }

  @Post('/v1/disc/report/batch')
  @PublicRead({
    summary: 'Reports of up to 25 identities',
    type: ReportBatchResultDto,
    problems: ['batch_too_large', 'policy_not_found'],
  })
  async reports(@Body() { tris_ids, window, depth, ...query }: ReportBatchDto) {
    const coordinates = this.coordinates(query, '/');
    return inOrder(tris_ids, (id) => this.queries.execute(new GetReport(id, coordinates, window, depth)));
  }

  @Get('/v1/disc/changes')
  @PublicRead({ summary: 'Identities in the order of their last change, as a feed to follow', type: ChangesDto })
  async changes(@Query() { limit, cursor }: ChangesQuery) {
    return this.queries.execute(new GetChanges(limit, cursor));
  }

  private coordinates(query: CoordinateParameters, at: '?' | '/' = '?'): Coordinates {
    return toCoordinates(query, this.clock(), at);
  }
}

function seen<T>({ body, viewpoint }: Seen<T>): Read<T> {
  return new Read(body, etagOf(viewpoint));
}

/** One result per identity, in order; what is wrong with one identity does not spoil the others. */
async function inOrder<T>(trisIds: readonly string[], answer: (trisId: string) => Promise<T>) {
  const results = [];
  for (const tris_id of trisIds) {
    try {
      results.push({ tris_id, status: 200, data: await answer(tris_id) });
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'identity_not_found') throw error;
      results.push({ tris_id, status: error.status, problem: problemMembers(error) });
    }
  }
  return { results };
}
