import { type DynamicModule, type INestApplicationContext, Module, type Type } from '@nestjs/common';
import type { Config } from '../kernel/config.js';
import { NestFactory } from '@nestjs/core';
import { CommandBus, CommandHandlerNotFoundException, QueryBus, QueryHandlerNotFoundException } from '@nestjs/cqrs';
import { applicationOf } from '../app/shared.module.js';
import { type CommandContext, internalActor, internalContext } from '../commands/context.js';
import { beginLog } from '../features/lenses/new-log.js';
import type { Cli, Folder, Prepare, StoresContext, Work } from './cli.js';
import { CommandFailed } from './exit.js';
import { applyAll } from './read-models.js';

/** The open stores, and the buses that reach the handlers of the features. */
export interface HandlersContext<V = unknown> extends StoresContext<V> {
  commands: CommandBus;
  queries: QueryBus;
  /** Returns a provider that the features export. */
  get: INestApplicationContext['get'];
}

@Module({})
class CommandModule {}

/**
 * An action that sends the same commands and queries to the same handlers as the server's controllers.
 * @param folder `create`: the command may be the first to write to a log, and then begins it
 * @param features modules whose handlers the action needs; those of dead letters are always there
 */
export function withHandlers<A extends unknown[], V = undefined>(
  cli: Cli,
  folder: Folder,
  features: readonly Type[] | ((config: Config) => (Type | DynamicModule)[]),
  work: Work<HandlersContext<V>, A>,
  prepare?: Prepare<V, A>,
) {
  return cli.withStores<A, V>(
    folder,
    async (context, ...args) => {
      const run = (get: INestApplicationContext['get']) =>
        work({ ...context, commands: get(CommandBus), queries: get(QueryBus), get }, ...args);
      if (context.host) return run(context.host.get).catch(refuseLeftOut);
      if (folder === 'create') await beginLog(context.stores.eventStore, Date.now);
      const modules = typeof features === 'function' ? features(context.config) : features;
      const module = applicationOf(CommandModule, modules, context.stores, Date.now, context.config);
      const app = await NestFactory.createApplicationContext(module, { logger: false, abortOnError: false });
      context.atEnd(() => app.close());
      return run(app.get.bind(app) as INestApplicationContext['get']);
    },
    prepare,
  );
}

/** Reads. Anyone who can run a command on the store's folder may act for every organization. */
export const OPERATOR = internalActor('cli', ['ops', 'policies:write']);

/** A command of this actor. Without an Idempotency-Key, since repeating these commands changes nothing. */
export function commandOf(actor: string, body: object): CommandContext {
  return { ...internalContext(actor, body), actor: { ...OPERATOR, name: actor } };
}

/** Entries of a page that is asked for. */
export const PAGE = 1_000;

/** Reads all pages of a list. @param field the one of a page with its entries */
export async function allPages<F extends string, T>(
  field: F,
  read: (cursor: string | undefined) => Promise<Record<F, T[]> & { next_cursor: string | null }>,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    all.push(...page[field]);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}

/** Applies a change to the read models, so that the next look-up shows it even without a running server. */
export async function changed({ stores, config, print }: StoresContext, outcome: string): Promise<void> {
  await applyAll(stores, config);
  print(outcome);
}

/** @throws CommandFailed for what is not there in a server that leaves modules out */
function refuseLeftOut(error: Error): never {
  const isLeftOut =
    error instanceof CommandHandlerNotFoundException ||
    error instanceof QueryHandlerNotFoundException ||
    error.constructor.name === 'UnknownElementException';
  if (!isLeftOut) throw error;
  throw new CommandFailed('The service that runs on the folder leaves out what this needs: see its CREDENCE_MODULES.');
}
