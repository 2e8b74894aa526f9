import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { CommandWith, QueryWith } from '../../commands/messages.js';
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
export class RebuildViews extends CommandWith<
  {
    /** Names of views, or `all`. */
    views: string | readonly string[];
    signal: AbortSignal;
    onProgress?: (done: number, total: number) => void;
    /** It serves once it is built. */
    swap?: boolean | undefined;
    /** As of `swap` in src/read-side/generations.ts. */
    newLog?: boolean | undefined;
  },
  RebuiltDto
> {}

@CommandHandler(RebuildViews)
export class RebuildViewsHandler implements ICommandHandler<RebuildViews> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError; StartError if the serving generation was folded from another log */
  async execute({ input }: RebuildViews): Promise<RebuiltDto> {
    const { store, readModels } = this;
    const manifest = await readModels.manifest();
    if (!input.newLog) refuseOtherLog(manifest, await readModels.generations(), store.logId);
    if (input.swap && !manifest) throw new GenerationError(NOTHING_SERVES);
    const started = performance.now();
    let events = 0;
    const onProgress = (done: number, total: number) => {
      events = done;
      input.onProgress?.(done, total);
    };
    const { id } = await rebuild(input.views, store, readModels, input.signal, onProgress);
    const seconds = (performance.now() - started) / 1000;
    if (input.swap) await swap(id, store, readModels, input.newLog);
    const hidden = await store.hiddenStreams?.();
    const built = { generation: id, events, seconds, swapped: input.swap === true };
    return hidden?.length ? { ...built, hidden_streams: hidden } : built;
  }
}

/** Serves the views of a ready generation, or undoes the last swap. */
export class ServeGenerations extends CommandWith<
  /** `newLog` as of `swap`, `rollback` as of `rollback` in src/read-side/generations.ts */
  { swap: string; newLog?: boolean } | { rollback: Swapped | undefined },
  Manifest
> {}

@CommandHandler(ServeGenerations)
export class ServeGenerationsHandler implements ICommandHandler<ServeGenerations> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError; StartError if the serving generation was folded from another log */
  execute({ input }: ServeGenerations): Promise<Manifest> {
    if ('rollback' in input) return rollback(this.store, this.readModels, input.rollback);
    return swap(input.swap, this.store, this.readModels, input.newLog);
  }
}

/** Deletes a generation that does not serve. */
export class DropGeneration extends CommandWith<{ generation: string }, void> {}

@CommandHandler(DropGeneration)
export class DropGenerationHandler implements ICommandHandler<DropGeneration> {
  constructor(@Inject(READ_MODELS) private readonly readModels: ReadModels) {}

  /** @throws GenerationError */
  execute({ input: { generation } }: DropGeneration): Promise<void> {
    return drop(generation, this.readModels);
  }
}

/** Folds the log again and compares every row of the serving generations. */
export class VerifyReadModels extends QueryWith<Pick<VerifyOptions, 'signal' | 'onProgress'>, Verified> {}
type Verified = VerifyResult & { seconds: number };

@QueryHandler(VerifyReadModels)
export class VerifyReadModelsHandler implements IQueryHandler<VerifyReadModels> {
  constructor(
    private readonly signed: SignedCheckpoints,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  /** @throws GenerationError if nothing serves yet; Error as of `verify` */
  async execute({ input }: VerifyReadModels): Promise<Verified> {
    const started = performance.now();
    const result = await verify(this.store, this.readModels, { ...input, signed: await this.signed.last() });
    if (result.generations.length === 0) throw new GenerationError(NOTHING_SERVES);
    return { ...result, seconds: (performance.now() - started) / 1000 };
  }
}
