import type { FastifyReply } from 'fastify';
import { sendProblem } from '../../src/http/problem-response.js';
import { Logger } from '../../src/kernel/logger.js';
import { Problem, rebuilding } from '../../src/kernel/problems.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';

/** What the log says while every request is refused. */

let said: string[];
let logger: Logger;
beforeEach(() => {
  said = [];
  logger = new Logger('warn', (line) => void said.push(JSON.parse(line).msg));
});

function refuse(error: Error): void {
  const reply = {
    sent: false,
    raw: { destroyed: false },
    request: { id: 'r', method: 'GET', pattern: '/v1/disc/score/:tris_id' },
    ...Object.fromEntries(['code', 'header', 'headers', 'removeHeader', 'send'].map((name) => [name, () => reply])),
  } as unknown as FastifyReply;
  sendProblem(reply, error, logger);
}

test('a reason is logged once a minute, also if its numbers differ from request to request', () => {
  for (let n = 0; n < 500; n++) {
    refuse(rebuilding(`${n.toLocaleString('en')} of 5,000 events`));
    refuse(new Problem('projection_behind', `The read models have not applied 5a11-0c.${n} within 2 s.`));
    refuse(new StoreUnavailable('PostgreSQL at 127.0.0.1:5432 is unavailable'));
  }
  expect(said).toEqual([
    'The read models are being built: 0 of 5,000 events. Try again shortly.',
    'The read models have not applied 5a11-0c.0 within 2 s.',
    'A store of the service gives no definite answer. The same request may be repeated.',
  ]);
});

test('another reason is logged at once, also with the same code', () => {
  for (const reason of ['it hangs', 'it refuses the password', 'it hangs']) refuse(new StoreUnavailable(reason));
  expect(said).toHaveLength(2);
});
