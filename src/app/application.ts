import type { Socket } from 'node:net';
import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { ApplicationConfig, NestFactory } from '@nestjs/core';
import { CommandBus } from '@nestjs/cqrs';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { Config } from '../kernel/config.js';
import { Cursors } from '../kernel/cursor.js';
import { EVENT_STORE, type EventStore } from '../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../stores/ports/key-value.js';
import { serveConsole } from './console.js';
import { Health } from './health.js';
import { Logger } from '../kernel/logger.js';
import { OpsController } from './ops.controller.js';
import { ProofsController } from './key-set.controller.js';
import { find } from './find.js';
import { Staleness } from '../read-side/staleness.js';
import { REFERENCE } from './reference.js';
import { RefreshFamilies } from '../features/accounts/refresh-families.js';
import { SigningKeys } from '../credentials/signing-keys.js';
import { Answers } from '../http/answers.js';
import { AccessTokens } from '../credentials/access-tokens.js';
import { ApiKeys } from '../credentials/api-keys.js';
import { controllerHandler } from '../http/controllers.js';
import { installHooks, requestId, startAnswer } from '../http/hooks.js';
import { withoutHooks } from '../http/nest-internals.js';
import { BODY_LIMIT } from '../http/json-body.js';
import { isPrivate } from '../http/addresses.js';
import { answerClientError, originForm, serverOf } from '../http/connections.js';
import { serveDocs } from '../http/openapi.js';
import { POSITION_GATE, type PositionGate } from '../kernel/positions.js';
import { sendProblem } from '../http/problem-response.js';
import { PublicAddress } from '../kernel/public-address.js';
import { requestLimit } from '../http/rate-limit.js';
import { traceRequests } from '../http/request-traces.js';
import { TRACING, type Tracing } from '../kernel/tracing.js';
import { traceCommands } from './tracing.js';

/** What every module can inject besides the ports, and the routes of the process itself. */
@Module({})
class EdgeModule {
  static register(config: Config, logger: Logger, tracing: Tracing | null): DynamicModule {
    const signingKeys = new SigningKeys(config, logger);
    const providers = [
      { provide: Config, useValue: config },
      { provide: Logger, useValue: logger },
      { provide: Health, useValue: new Health() },
      { provide: SigningKeys, useValue: signingKeys },
      { provide: ApiKeys, useValue: new ApiKeys(config, logger) },
      { provide: AccessTokens, useValue: new AccessTokens(signingKeys) },
      { provide: Cursors, useValue: new Cursors(() => signingKeys.secret('cursors')) },
      { provide: Registry, useValue: new Registry() },
      { provide: TRACING, useValue: tracing },
      PublicAddress,
    ];
    const controllers = [OpsController, ProofsController];
    return { module: EdgeModule, global: true, controllers, providers, exports: providers };
  }
}

@Module({})
class RootModule {}

function createFastify(config: Config, logger: Logger): FastifyInstance {
  return fastify({
    bodyLimit: BODY_LIMIT,
    serverFactory: serverOf,
    // A parameter is a TRIS id of up to 128 characters, each of which may be percent-encoded.
    routerOptions: { maxParamLength: 512 },
    // Only proxies on this machine or in private networks are trusted, so no client outside of them can choose its address.
    trustProxy: config.trustProxy ? isPrivate : false,
    rewriteUrl: originForm,
    genReqId: requestId,
    frameworkErrors: (error, request, reply) => {
      startAnswer(request as FastifyRequest, reply as FastifyReply);
      sendProblem(reply as FastifyReply, error, logger);
    },
    clientErrorHandler: (error, socket) => answerClientError(error, socket as Socket),
    forceCloseConnections: 'idle',
    // The hooks refuse requests while closing, as a problem.
    return503OnClosing: false,
  });
}

/** Requests, unknown addresses and errors never reach Nest's own layers. */
class EdgeAdapter extends FastifyAdapter {
  constructor(
    server: FastifyInstance,
    private readonly problemLogger: Logger,
  ) {
    super(withoutHooks(server));
    this.setInstance(server as never);
  }

  override setErrorHandler(): FastifyInstance {
    return this.instance.setErrorHandler((error, _request, reply) =>
      sendProblem(reply, error, this.problemLogger),
    ) as never;
  }

  // The hooks answer unknown addresses before any handler.
  override setNotFoundHandler(): FastifyInstance {
    return this.instance as never;
  }
}

/**
 * The application with everything around its routes, ready to `listen`. `close()` stops accepting, lets requests in
 * flight finish and closes idle connections. A process without the role `api` serves only its health and metrics.
 * @param module the features; a PositionGate among its providers is found by its token
 * @throws ConfigError when a file of keys is not usable
 */
export async function createApp(
  module: Type | DynamicModule,
  config: Config,
  logger: Logger = new Logger(config.logLevel),
  tracing: Tracing | null = null,
): Promise<NestFastifyApplication> {
  const server = createFastify(config, logger);
  const app = await NestFactory.create<NestFastifyApplication>(
    { module: RootModule, imports: [EdgeModule.register(config, logger, tracing), module] },
    new EdgeAdapter(server, logger),
    { bodyParser: false, logger, abortOnError: false },
  );
  const registry = app.get(Registry);
  const gate = find<PositionGate>(app, POSITION_GATE);
  const answers = new Answers(app.get(Cursors), gate, find(app, Staleness));

  const nest = app.get(ApplicationConfig);
  if ([nest.getGlobalGuards(), nest.getGlobalPipes(), nest.getGlobalInterceptors()].flat().length > 0) {
    throw new TypeError('Guards, pipes and interceptors of the whole application would not run');
  }
  const commands = find(app, CommandBus);
  if (tracing && commands) traceCommands(commands, tracing);
  if (tracing) traceRequests(server, tracing);
  installHooks(server, {
    publicReads: config.publicReads,
    keys: app.get(ApiKeys),
    tokens: app.get(AccessTokens),
    // Without the modules that know sessions, none acts for a TRIS.
    standing: async (session) =>
      (await find(app, RefreshFamilies)?.standingOf(session)) ?? { ...session, trisId: null },
    cursors: app.get(Cursors),
    rateLimit: requestLimit(config, config.rateLimit, find<KeyValue>(app, KEY_VALUE)),
    registry,
    logger,
    admission: find<EventStore>(app, EVENT_STORE)?.admission,
    gate,
    serves: (url) => config.has('api') || /^\/(?:health\/|metrics$)/.test(url),
    handlerOf: (policy) => controllerHandler(policy, app.get<object>(policy.controller), answers, logger),
  });
  collectDefaultMetrics({ register: registry });
  // An unknown Expect header is ignored (RFC 9110, 10.1.1); Node itself would send 417 without a body.
  server.server.on('checkExpectation', (request, response) => server.server.emit('request', request, response));
  if (config.has('api')) {
    serveDocs(app, config, REFERENCE);
    serveConsole(server, config);
  }
  await app.init();
  return app;
}
