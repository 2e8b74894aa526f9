import { Inject, Injectable } from '@nestjs/common';
import { Problem } from '../../kernel/problems.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { SCHEME_ID, type Scheme, schemeOf, schemeStream } from './domain/scheme.js';

/** Schemes by id, each read from its own stream, so always current. */
@Injectable()
export class Schemes {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @throws Problem scheme_not_found */
  async get(id: string): Promise<Scheme> {
    const scheme = SCHEME_ID.test(id) ? schemeOf(await this.store.readStream(schemeStream(id))) : undefined;
    if (!scheme) throw new Problem('scheme_not_found', `There is no verification scheme ${id}.`);
    return scheme;
  }
}

export function retired(scheme: string): Problem {
  return new Problem('scheme_retired', `The verification scheme ${scheme} is retired.`);
}
