import { sign, generateKeyPairSync, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Fastify from 'fastify';
import { open } from 'lmdb';
import { discScore } from '../dist/src/features/disc/score.js';
import { scoringBy } from '../dist/src/scoring/models/all.js';
import { MODEL_LENS } from '../dist/src/scoring/lens.js';
import { disc1 } from '../dist/src/scoring/models/disc-1.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';

/**
 * What the three measured routes cannot do without, on bare Fastify and the bare library of the stores: a look-up reads
 * and parses its row and computes the score; a relay stores two events durably, and four rows; a check reads a row, signs
 * Ed25519, and stores an event durably, and a row. Texts are JSON. There are no checks, ids, digests, indexes, limits or
 * conventions, nothing is exactly once, and no reader waits for the rows.
 *
 * CREDENCE_DATA is a folder that the service has filled; LEAST_DATA is for the databases of this server.
 */
const log = open({ path: join(process.env.LEAST_DATA, 'log'), overlappingSync: false, encoding: 'string' });
const rows = open({ path: join(process.env.LEAST_DATA, 'rows'), overlappingSync: false, encoding: 'string' });
const lens = scoringBy(MODEL_LENS, disc1);
const view = { as_of: Date.now(), position: 1, lens, generation: 'g1', isPresent: true, large: null };

const stores = await openStores(process.env.CREDENCE_DATA, Date.now);
const manifest = await stores.readModels.manifest();
for (let cursor = null; ;) {
  const page = await stores.readModels.scan(manifest.views.identities, 'identities', cursor, 5_000);
  for (const { row, value } of page.rows) void rows.put(row.key, JSON.stringify(value));
  if ((cursor = page.cursor) === null) break;
}
await rows.flushed;
await closeStores(stores);

let position = 0;
/** Resolves once they are on the disk; their rows are written beside. */
function record(events, rowsOfEach) {
  const stored = events.map((event) => log.put(++position, JSON.stringify({ ...event, id: randomUUID() })));
  for (let n = 0; n < rowsOfEach; n++) void rows.put(`row ${position} ${n}`, JSON.stringify(events[0]));
  return Promise.all(stored);
}

const [answerToRelay, answerToCheck] = [JSON.parse(process.env.POST_BODY), JSON.parse(process.env.CHECK_BODY)];
const key = generateKeyPairSync('ed25519').privateKey;
const signed = promisify(sign);
const at = () => ({ recorded_at: new Date().toISOString() });
const fastify = Fastify();
fastify.get('/api/disc-score/:tris_id', ({ params: { tris_id } }) => {
  const state = JSON.parse(rows.get(tris_id));
  return discScore({ ...view, tris_id, state });
});
fastify.post('/api/decision-relay', async ({ body }, reply) => {
  await record(
    [
      { ...body, ...at() },
      { tris_id: body.tris_id, ...at() },
    ],
    4,
  );
  return reply.code(202).send(answerToRelay);
});
fastify.post('/v1/policies/ap/check', async ({ body }) => {
  const { actions } = JSON.parse(rows.get(body.subject_tris));
  const recorded = record([{ ...body, actions, ...at() }], 1);
  const claims = Buffer.from(answerToCheck.eligibility_token.split('.', 2).join('.'));
  const signature = await signed(null, claims, key);
  await recorded;
  return { ...answerToCheck, eligibility_token: `${claims}.${signature.toString('base64url')}` };
});
console.log(await fastify.listen({ port: 0, host: '127.0.0.1' }));
process.once('SIGTERM', () => fastify.close().then(() => process.exit(0)));
