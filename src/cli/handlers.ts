import type { DynamicModule, INestApplicationContext, Type } from '@nestjs/common';
import type { Config } from '../kernel/config.js';
import { NestFactory } from '@nestjs/core';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { AppModule } from '../app/app.module.js';
import { beginLog } from '../features/lenses/new-log.js';
import type { Cli, ExitCode, StoresContext } from './cli.js';

/** The open stores, and the buses that reach the handlers of the features. */
export interface HandlersContext extends StoresContext {
  commands: CommandBus;
  queries: QueryBus;
  /** Returns a provider that the features export. */
  get: INestApplicationContext['get'];
}

/**
 * An action that sends the same commands and queries to the same handlers as the server's controllers.
 * @param folder `create`: the command may be the first to write to a log, and then begins it
 * @param features modules whose handlers the action needs; those of dead letters are always there
 */
export function withHandlers<A extends unknown[]>(
  cli: Cli,
  folder: 'existing' | 'create',
  features: readonly Type[] | ((config: Config) => (Type | DynamicModule)[]),
  work: (context: HandlersContext, ...args: A) => Promise<ExitCode>,
) {
  return cli.withStores<A>(folder, async (context, ...args) => {
    if (folder === 'create') await beginLog(context.stores.eventStore, Date.now);
    const modules = typeof features === 'function' ? features(context.config) : features;
    const module = AppModule.of(modules, context.stores, Date.now);
    const app = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
    const get = app.get.bind(app) as INestApplicationContext['get'];
    try {
      return await work({ ...context, commands: app.get(CommandBus), queries: app.get(QueryBus), get }, ...args);
    } finally {
      await app.close();
    }
  });
}
