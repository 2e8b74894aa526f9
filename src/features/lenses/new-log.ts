import { internalContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import type { Clock } from '../../kernel/clock.js';
import { START } from '../../kernel/event.js';
import { disc2 } from '../../scoring/models/disc-2.js';
import type { EventStore } from '../../stores/ports/event-store.js';
import { PLATFORM_LENS_STREAM, decidePromoteModel, noModel } from './domain/lens-stream.js';

/**
 * Makes disc-2 the version of the model of a new log, as its first event. A log that has events is left as it is: if
 * none of them activates a version, it continues with disc-1. Several processes may do this at once: the stream is
 * created only once.
 */
export async function beginLog(store: EventStore, clock: Clock): Promise<void> {
  if ((await store.head()) !== START) return;
  const context = internalContext('start', { model_id: disc2.id });
  await new Writer(store, clock).create(PLATFORM_LENS_STREAM, decidePromoteModel(noModel(), disc2, null), context);
}
