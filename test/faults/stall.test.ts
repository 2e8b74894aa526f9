import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { limit, repeated, verified } from './faults.js';

/** A process that stands still for longer than its lease loses the batch under way, and goes on serving. */

const STALL_MS = 3_000; // the lease is two seconds long
const ID = 'tris:stalled';

let data: string;
beforeAll(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-stall-'))));
afterAll(() => rm(data, { recursive: true, force: true }));

test(
  'the holder of the lease stands still while it is written to',
  async () => {
    const server = await Server.start({ data });
    let relayed = 0;
    for (let n = 0; n < repeated(2, 4); n++) {
      let going = true;
      const writing = (async () => {
        while (going) {
          const answer = await server.relay({ tris_id: ID });
          expect(answer.status).toBe(202);
          relayed++;
        }
      })();
      await sleep(100);
      server.child.kill('SIGSTOP');
      await sleep(STALL_MS);
      server.child.kill('SIGCONT');
      await sleep(200);
      going = false;
      await writing;
      const last = await server.relay({ tris_id: ID });
      relayed++;
      await eventually(async () => {
        const { status, json } = await server.getAfter(last, `/v1/disc/score/${ID}?model=disc-1`);
        return status === 200 && json.total_tct === 100 * relayed;
      });
      expect((await server.send('GET', '/health/ready')).status).toBe(200);
    }
    expect(await server.stop()).toBe(0);
    expect(server.errors.join('')).not.toMatch(/^\s+at /m);
    await verified(data);
  },
  limit(180_000),
);
