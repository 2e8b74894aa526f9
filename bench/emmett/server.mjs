import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { STREAM_DOES_NOT_EXIST } from '@event-driven-io/emmett';
import { getSQLiteEventStore } from '@event-driven-io/emmett-sqlite';
import Fastify from 'fastify';

/**
 * The relay endpoint, written like emmett's samples: parse, decide, append to the action's stream. No key, no read models, and
 * SQLite as emmett opens it. One append at a time: SQLite has one writer, and concurrent ones are refused as busy.
 */
const folder = mkdtempSync(join(tmpdir(), 'credence-emmett-'));
const store = getSQLiteEventStore({ fileName: join(folder, 'log.db') });

let turn = Promise.resolve();
const append = (...append) => (turn = turn.catch(() => undefined).then(() => store.appendToStream(...append)));

const fastify = Fastify();
fastify.post('/api/decision-relay', async (request, reply) => {
  const { tris_id, action_type, category, criticality, platform_id } = request.body;
  const action_id = randomUUID();
  const data = { tris_id, metric: `${category}_${action_type}`, criticality, platform_id };
  const events = [
    { type: 'ActionRelayed', data },
    { type: 'CredonationRecorded', data: { tris_id, platform_id, amount: 100, category } },
  ];
  await append(`action-${action_id}`, events, { expectedStreamVersion: STREAM_DOES_NOT_EXIST });
  return reply.code(202).send({ status: 'received', message: 'Action received for scoring.', action_id });
});

console.log(await fastify.listen({ port: 0, host: '127.0.0.1' }));
process.once('SIGTERM', async () => {
  await fastify.close();
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
});
