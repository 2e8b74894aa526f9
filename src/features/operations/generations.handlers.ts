import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import {
  GenerationError,
  NOTHING_SERVES,
  type Swapped,
  drop,
  rebuild,
  rollback,
  swap,
} from '../../read-side/generations.js';
import { SignedCheckpoints } from '../../credentials/log-key.js';
import { refuseOtherLog } from '../../read-side/manifest.js';
import { type VerifyOptions, type VerifyResult, verify } from '../../read-side/verify.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Manifest, READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import type { RebuiltDto } from './operations.dto.js';

/** Operations on the read models, for the command line and for the jobs that HTTP starts. */

/** Builds a generation of views beside the one that serves; an interrupted build starts again. */
export class RebuildViews extends Command<RebuiltDto> {
  constructor(
    /** Names of views, or `all`. */
    readonly views: string | readonly string[],
    readonly run: { signal: AbortSignal; onProgress?: (done: number, total: number) => void },
    /** `swap`: it serves once it is built. `newLog`: as of `swap` in src/read-side/generations.ts. */
    readonly options: { swap?: boolean; newLog?: boolean } = {},
  ) {
    super();
  }
}

@CommandHandler(RebuildViews)
export class RebuildViewsHandler implements ICommandHandler<RebuildViews> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError; StartError if the serving generation was folded from another log */
  async execute({ views, run, options }: RebuildViews): Promise<RebuiltDto> {
    const { store, readModels } = this;
    const manifest = await readModels.manifest();
    if (!options.newLog) refuseOtherLog(manifest, await readModels.generations(), store.logId);
    if (options.swap && !manifest) throw new GenerationError(NOTHING_SERVES);
    const started = performance.now();
    let events = 0;
    const onProgress = (done: number, total: number) => {
      events = done;
      run.onProgress?.(done, total);
    };
    const { id } = await rebuild(views, store, readModels, run.signal, onProgress);
    const seconds = (performance.now() - started) / 1000;
    if (options.swap) await swap(id, store, readModels, options.newLog);
    const hidden = await store.hiddenStreams?.();
    const built = { generation: id, events, seconds, swapped: options.swap === true };
    return hidden?.length ? { ...built, hidden_streams: hidden } : built;
  }
}

/** Serves the views of a ready generation, or undoes the last swap. */
export class ServeGenerations extends Command<Manifest> {
  /** @param change `newLog` as of `swap`, `rollback` as of `rollback` in src/read-side/generations.ts */
  constructor(readonly change: { swap: string; newLog?: boolean } | { rollback: Swapped | undefined }) {
    super();
  }
}

@CommandHandler(ServeGenerations)
export class ServeGenerationsHandler implements ICommandHandler<ServeGenerations> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError; StartError if the serving generation was folded from another log */
  execute({ change }: ServeGenerations): Promise<Manifest> {
    if ('rollback' in change) return rollback(this.store, this.readModels, change.rollback);
    return swap(change.swap, this.store, this.readModels, change.newLog);
  }
}

/** Deletes a generation that does not serve. */
export class DropGeneration extends Command<void> {
  constructor(readonly generation: string) {
    super();
  }
}

@CommandHandler(DropGeneration)
export class DropGenerationHandler implements ICommandHandler<DropGeneration> {
  constructor(@Inject(READ_MODELS) private readonly readModels: ReadModels) {}

  /** @throws GenerationError */
  execute({ generation }: DropGeneration): Promise<void> {
    return drop(generation, this.readModels);
  }
}

/** Folds the log again and compares every row of the serving generations. */
export class VerifyReadModels extends Query<VerifyResult & { seconds: number }> {
  constructor(readonly run: Pick<VerifyOptions, 'signal' | 'onProgress'>) {
    super();
  }
}

@QueryHandler(VerifyReadModels)
export class VerifyReadModelsHandler implements IQueryHandler<VerifyReadModels> {
  constructor(
    private readonly signed: SignedCheckpoints,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError if nothing serves yet; Error as of `verify` */
  async execute({ run }: VerifyReadModels): Promise<VerifyResult & { seconds: number }> {
    const started = performance.now();
    const result = await verify(this.store, this.readModels, { ...run, signed: await this.signed.last() });
    if (result.generations.length === 0) throw new GenerationError(NOTHING_SERVES);
    return { ...result, seconds: (performance.now() - started) / 1000 };
  }
}
