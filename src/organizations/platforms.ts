import { Inject, Injectable } from '@nestjs/common';
import { EVENT_STORE, type EventStore } from '../event-store/event-store.js';
import { hashedStream } from '../event-store/writer.js';

export function platformStream(platformId: string): string {
  return hashedStream('platform', platformId);
}

/** Who owns a platform. An owner never changes, so what was once found is kept. */
@Injectable()
export class PlatformOwners {
  private readonly known = new Map<string, string>();

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** TRIS of the owning organization, or null: read from the platform's stream, so it is never behind. */
  async ownerOf(platformId: string): Promise<string | null> {
    const known = this.known.get(platformId);
    if (known !== undefined) return known;
    const [registered] = await this.store.readStream(platformStream(platformId), { limit: 1 });
    if (!registered) return null;
    const owner = registered.data['tris_org'] as string;
    this.known.set(platformId, owner);
    return owner;
  }
}
