import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ACTION, type Answer, Server, environmentOf } from './server.js';

/** Whatever ends the process, and whenever: an acknowledged action is there, once, and a retry of any other succeeds. */

const CLI = resolve('dist/src/cli.js');
const WRITERS = 24;
const IDENTITIES = 8;

let data: string;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-crash-'))));
afterEach(() => rm(data, { recursive: true, force: true }));

/** Everything that was ever sent, by external id, and the action's id once it was acknowledged. */
class Ledger {
  readonly sent = new Map<string, { tris_id: string; idempotencyKey: string | null; action_id: string | null }>();
  private serial = 0;

  get acknowledged(): number {
    return [...this.sent.values()].filter(({ action_id }) => action_id !== null).length;
  }

  /** Sends new actions until the server is gone. */
  async write(server: Server): Promise<void> {
    for (;;) {
      const n = this.serial++;
      const external_id = `x-${n}`;
      const idempotencyKey = n % 3 === 0 ? `key-${n}` : null;
      this.sent.set(external_id, { tris_id: `tris:crash-${n % IDENTITIES}`, idempotencyKey, action_id: null });
      try {
        const answer = await this.send(server, external_id);
        if (answer.status !== 202) return; // it is stopping
        this.sent.get(external_id)!.action_id = answer.json.action_id;
      } catch {
        return;
      }
    }
  }

  send(server: Server, external_id: string): Promise<Answer> {
    const { tris_id, idempotencyKey } = this.sent.get(external_id)!;
    const headers: Record<string, string> = idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey };
    return server.send('POST', '/api/decision-relay', { body: { ...ACTION, tris_id, external_id }, headers });
  }

  /** Repeats every action: the acknowledged ones must get their first answer again. */
  async retryAll(server: Server): Promise<Answer> {
    let last: Answer | undefined;
    const rest = [...this.sent.keys()];
    const worker = async () => {
      for (let external_id = rest.pop(); external_id !== undefined; external_id = rest.pop()) {
        const answer = await this.send(server, external_id);
        expect([external_id, answer.status]).toEqual([external_id, 202]);
        const entry = this.sent.get(external_id)!;
        expect([external_id, answer.json.action_id]).toEqual([external_id, entry.action_id ?? answer.json.action_id]);
        entry.action_id = answer.json.action_id;
        if (!last || positionOf(answer) > positionOf(last)) last = answer;
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, worker));
    return last!;
  }

  /** Every action stands in its identity's history exactly once, and nothing else does. */
  async expectHistories(server: Server, last: Answer): Promise<void> {
    await reached(server, last);
    for (let identity = 0; identity < IDENTITIES; identity++) {
      const tris_id = `tris:crash-${identity}`;
      const ids: string[] = [];
      for (let cursor = ''; ;) {
        const page = await server.get(`/v1/disc/score/${tris_id}/history?limit=1000${cursor}`);
        ids.push(...page.json.entries.map((entry: any) => entry.event_id));
        if (page.json.next_cursor === null) break;
        cursor = `&cursor=${page.json.next_cursor}`;
      }
      const expected = [...this.sent.values()].filter((entry) => entry.tris_id === tris_id);
      expect(ids.sort()).toEqual(expected.map(({ action_id }) => action_id).sort());
      const { json } = await server.get(`/api/disc-score/${tris_id}`);
      expect(json.total_tct).toBe(100 * expected.length);
    }
  }
}

const positionOf = ({ headers }: Answer) => Number(String(headers['credence-position']).split('.')[1]);

/** A killed server's lease on the read models lasts some seconds longer than it did. */
async function reached(server: Server, write: Answer): Promise<void> {
  for (let tries = 0; tries < 10; tries++) {
    const { status } = await server.getAfter(write, '/api/disc-score/tris:crash-0');
    if (status === 200) return;
    expect(status).toBe(503);
  }
  throw new Error('the read models do not reach the last write');
}

async function expectVerified(): Promise<void> {
  if (!existsSync(CLI)) throw new Error(`${CLI} does not exist: run "npm run build" before these tests`);
  const env = { ...process.env, NODE_OPTIONS: '', ...(await environmentOf(data)) };
  await promisify(execFile)(process.execPath, [CLI, 'verify'], { env }).catch((error) => {
    throw new Error(`verify exits ${error.code}: ${error.stdout}${error.stderr}`);
  });
}

test('kill -9 in the middle of writes loses nothing acknowledged and doubles nothing', async () => {
  const ledger = new Ledger();
  for (const lifetime of [60, 250, 500]) {
    const victim = await Server.start({ data });
    const before = ledger.acknowledged;
    const writers = Array.from({ length: WRITERS }, () => ledger.write(victim));
    // By progress first, so that a slow machine is not killed before it has begun.
    while (ledger.acknowledged < before + 20) await sleep(5);
    await sleep(lifetime);
    await victim.kill();
    await Promise.all(writers);
    expect(ledger.acknowledged).toBeGreaterThan(before);

    const server = await Server.start({ data });
    await ledger.expectHistories(server, await ledger.retryAll(server));
    await expectVerified();
    await server.stop();
  }
}, 240_000);

test('SIGTERM in the middle of writes ends with 0 in time, and every acknowledged action is there', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data });
  const writers = Array.from({ length: WRITERS }, () => ledger.write(server));
  while (ledger.acknowledged < 200) await sleep(5);
  const begun = Date.now();
  expect(await server.stop()).toBe(0);
  expect(Date.now() - begun).toBeLessThan(10_000);
  await Promise.all(writers);

  const again = await Server.start({ data });
  await ledger.expectHistories(again, await ledger.retryAll(again));
  await again.stop();
  expect(again.errors.join('')).not.toContain('"level":"error"');
}, 240_000);
