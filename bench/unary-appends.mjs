import { ANY, jsonEvent, NO_STREAM } from '@eventstore/db-client';

/** Calls in flight at a time. With 64, 128 or 512 the rate and the processor time are the same. */
export const CALLS = 256;
/** A call with credentials of its own is unary; others use BatchAppend if the server has it. Without TLS they are not sent. */
const credentials = { username: 'bench', password: 'bench' };
const REVISIONS = { 'no-stream': NO_STREAM, any: ANY };

/**
 * The least that could stand in place of the store's own appends: the unary call of the log's client, at most so many at
 * a time. It repeats nothing and knows no errors of the store.
 */
export class UnaryAppends {
  #inFlight = 0;
  #queue = [];

  async append(client, stream, expected, events) {
    if (this.#inFlight < CALLS) this.#inFlight++;
    else await new Promise((free) => this.#queue.push(free));
    try {
      const expectedRevision = REVISIONS[expected] ?? BigInt(expected);
      const options = { expectedRevision, credentials };
      const appended = await client.appendToStream(stream, events.map(jsonEvent), options);
      return { position: Number(appended.position.commit), revision: Number(appended.nextExpectedRevision) };
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#inFlight--;
    }
  }
}
