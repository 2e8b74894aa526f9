import { Controller, Get, Inject, Query, Req } from '@nestjs/common';
import { ApiExcludeEndpoint, ApiResponse } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Registry } from 'prom-client';
import { Config } from '../kernel/config.js';
import { Problem } from '../kernel/problems.js';
import { Written } from '../http/answers.js';
import { Reply } from '../http/controllers.js';
import { Plain } from '../http/routes.js';
import { Health } from './health.js';
import { LivenessDto, ReadinessDto, ReadinessQuery } from './ops.dto.js';

@Controller()
export class OpsController {
  constructor(
    private readonly health: Health,
    private readonly registry: Registry,
    @Inject(Config) private readonly config: Config,
  ) {}

  @Get('health/live')
  @Plain({
    summary: 'Check whether the process responds',
    description: 'For the supervisor of the process.',
    type: LivenessDto,
  })
  live(): LivenessDto {
    return { status: 'ok' };
  }

  @Get('health/ready')
  @Plain({
    summary: 'Check whether every part of the service works, or all that reads or writes need',
    description: 'For load balancers, `for=reads` or `for=writes`: 503 names the part that does not work.',
    type: ReadinessDto,
  })
  @ApiResponse({ status: 503, description: 'A part does not work', type: ReadinessDto })
  async ready(@Query() { for: purpose }: ReadinessQuery): Promise<Written<ReadinessDto>> {
    const readiness = await this.health.ready(purpose);
    return new Written(readiness, null, readiness.status === 'ok' ? 200 : 503);
  }

  @Get('metrics')
  @ApiExcludeEndpoint()
  @Plain({ summary: 'Get Prometheus metrics, with an ops key or from the machine itself' })
  async metrics(@Req() request: FastifyRequest, @Reply() reply: FastifyReply): Promise<string> {
    if (!request.caller?.scopes.has('ops') && !this.isLocal(request)) {
      if (request.caller) throw new Problem('forbidden', 'The key lacks the scope "ops".');
      throw new Problem('unauthorized', 'Metrics need a key with the scope "ops", or a request from loopback.');
    }
    void reply.header('content-type', this.registry.contentType);
    return this.registry.metrics();
  }

  /** Whether the request comes from this machine, and neither through a proxy nor from a web page in a browser on it. */
  private isLocal(request: FastifyRequest): boolean {
    const { headers, socket } = request.raw;
    // Not every proxy adds a header. An operator with a proxy sets CREDENCE_TRUST_PROXY; Prometheus then needs a key.
    if (this.config.trustProxy || NOT_DIRECT.some((name) => headers[name] !== undefined)) return false;
    return isLoopback(socket.remoteAddress ?? '') && isLoopback(nameOf(headers.host ?? ''));
  }
}

/** Headers that proxies add, and Origin, by which a browser names the page that sends the request. */
const NOT_DIRECT = [
  'forwarded',
  'via',
  'x-real-ip',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'origin',
];

/** The host of a Host header. */
const nameOf = (host: string): string => host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');

const isLoopback = (address: string): boolean => /^(?:(?:::ffff:)?127(?:\.\d+){3}|localhost|::1)$/i.test(address);
