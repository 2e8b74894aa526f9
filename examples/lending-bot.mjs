// `npm run demo:lending`: a lender relays in bulk, watches its borrowers, checks in a batch, and is told when a rating falls.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { CredenceClient } from '../clients/typescript/dist/client.js';
import { verifyWebhook } from '../clients/typescript/dist/webhooks.js';
import { startService } from './service.mjs';

const BORROWERS = ['tris:ann', 'tris:ben', 'tris:cleo'];
const REPAID = { action_type: 'loan_repayment', category: 'finance', criticality: 'Critical', platform_id: 'lender' };
const LOST = { ...REPAID, tris_id: 'tris:ben', action_type: 'default_flags', category: 'compliance' };
const service = await startService({ env: { CREDENCE_WEBHOOK_LOOPBACK: 'on' } });
const credence = new CredenceClient({ baseUrl: service.url, apiKey: service.key });
const receiver = createServer(async (request, response) => {
  const message = await verifyWebhook(request, request.headers, webhook.secret).catch(() => undefined);
  response.writeHead(message ? 204 : 400).end();
  if (message) receiver.emit('told', message.data);
});
const fallen = once(receiver, 'told');
await once(receiver.listen(0, '127.0.0.1'), 'listening');
const url = `http://127.0.0.1:${receiver.address().port}`;
const { data: webhook } = await credence.post('/v1/webhooks', { body: { url, events: ['rating.changed'] } });
await credence.post('/v1/policies/ap', { body: { policy_id: 'AP_LEND_V1', rules: { disc_min: 7.5 } } });

const repaid = BORROWERS.flatMap((tris_id) => Array.from({ length: 20 }, () => ({ ...REPAID, tris_id })));
for (const actions of [repaid, [LOST, LOST]]) {
  const live = credence.live({ trisIds: BORROWERS });
  await live.next(); // A heartbeat: the stream tells of every change from now on.
  const { results } = (await credence.post('/v1/decision-relay/batch', { body: { actions } })).data;
  console.log(`relayed ${results.filter(({ status }) => status === 202).length} actions in one request`);
  const awaited = new Set(actions.map(({ tris_id }) => tris_id));
  for await (const { type, data } of live) {
    if (type === 'change' && awaited.delete(data.tris_id)) console.log(`  live: ${data.tris_id} has ${data.score}`);
    if (awaited.size === 0) break;
  }
  const body = { policy_id: 'AP_LEND_V1', subject_tris: BORROWERS };
  const checks = (await credence.post('/v1/policies/ap/check/batch', { body })).data.results;
  for (const { subject_tris, data } of checks) console.log(`  ${subject_tris}: ${data.granted ? 'granted' : 'denied'}`);
}
const [{ tris_id, score_rating, previous }] = await fallen;
console.log(`  webhook: the rating of ${tris_id} fell from ${previous.score_rating} to ${score_rating}`);
receiver.close();
await service.stop();
