import { decorated } from '../../src/kernel/decorated.js';
import type { SharedBuildOptions } from '../../src/read-side/shared-build.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import type { PartName, SharedBuild } from '../../src/stores/ports/shared-build.js';

export type SharingSizes = NonNullable<SharedBuildOptions['sizes']>;

/** A log in a folder, with marks as those of a server: its positions are consecutive numbers. */
export async function openLog(folder: string): Promise<EventStore> {
  const store: EventStore = await LmdbEventStore.open(folder, {});
  store.marks = async (after, every) => {
    const marks: number[] = [];
    for (let at = after + every; at < (await store.head()); at += every) marks.push(at);
    return marks;
  };
  return store;
}

/**
 * The same read models; `onClaim` is called for each part of a build that is claimed through them, and awaited, as is
 * `beforeClaim` before each attempt.
 */
export function watchClaims(
  models: ReadModels,
  onClaim: (part: PartName) => Promise<void> | void,
  beforeClaim: () => Promise<void> | void = () => undefined,
): ReadModels {
  const watched = (build: SharedBuild | undefined) =>
    build &&
    decorated(build, {
      claim: async (part, ...args) => {
        await beforeClaim();
        const isClaimed = await build.claim(part, ...args);
        if (isClaimed) await onClaim(part);
        return isClaimed;
      },
    });
  return decorated(models, {
    beginBuild: async (...args) => watched(await models.beginBuild!(...args)),
    sharedBuild: async (...args) => watched(await models.sharedBuild!(...args)),
  });
}
