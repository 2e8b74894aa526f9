import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../contracts/harness.js';
import { type Environment, runCommand } from '../servers/launch.js';
import { ACTION, type Answer, type Server } from './server.js';

/** What was relayed while something broke, to be compared with what is there afterwards. */

export const WRITERS = 24;
const IDENTITIES = 8;

/** Everything that was ever sent, by external id, and the action's id once it was acknowledged. */
export class Ledger {
  readonly sent = new Map<string, { tris_id: string; idempotencyKey: string | null; action_id: string | null }>();
  /** How many actions of an identity were recorded by other means. */
  readonly elsewhere = new Map<string, number>();
  private serial = 0;
  private stopped = false;

  constructor(private readonly prefix = 'x') {}

  get identities(): string[] {
    return Array.from({ length: IDENTITIES }, (_, n) => `tris:${this.prefix}-${n}`);
  }

  get acknowledged(): number {
    let count = 0;
    for (const { action_id } of this.sent.values()) if (action_id !== null) count++;
    return count;
  }

  /** Sends new actions until the server is gone. */
  async write(server: Server): Promise<void> {
    for (;;) {
      const external_id = this.next();
      try {
        const answer = await this.send(server, external_id);
        if (answer.status !== 202) return; // it is stopping
        this.sent.get(external_id)!.action_id = answer.json.action_id;
      } catch {
        return;
      }
    }
  }

  /** Sends new actions until `stop`; one that is refused for now is sent again until it is taken. */
  async persist(server: Server, refused: (answer: Answer) => void): Promise<void> {
    while (!this.stopped) await this.persistOnce(server, refused);
  }

  async persistOnce(server: Server, refused: (answer: Answer) => void = () => undefined): Promise<void> {
    const external_id = this.next();
    for (;;) {
      const answer = await this.send(server, external_id);
      if (answer.status === 202) {
        this.sent.get(external_id)!.action_id = answer.json.action_id;
        return;
      }
      refused(answer);
      await sleep(100);
    }
  }

  /** Sends a new action once, whatever becomes of it. */
  async try(server: Server): Promise<Answer> {
    return this.send(server, this.next());
  }

  stop(): void {
    this.stopped = true;
  }

  /** Waits until so many more are acknowledged: whatever breaks then, breaks in the middle of writes. */
  async acknowledges(more: number): Promise<void> {
    const wanted = this.acknowledged + more;
    // However long it takes, as long as there is one more from time to time.
    for (let seen = this.acknowledged; seen < wanted; seen = this.acknowledged)
      await eventually(() => this.acknowledged > seen, `one of ${wanted - seen} more acknowledged`);
  }

  private next(): string {
    const n = this.serial++;
    const external_id = `${this.prefix}-${n}`;
    const idempotencyKey = n % 3 === 0 ? external_id : null;
    this.sent.set(external_id, { tris_id: this.identities[n % IDENTITIES]!, idempotencyKey, action_id: null });
    return external_id;
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
    for (const tris_id of this.identities) {
      const others = this.elsewhere.get(tris_id) ?? 0;
      const ids: string[] = [];
      for (let cursor = ''; ;) {
        const page = await server.get(`/v1/disc/score/${tris_id}/history?limit=1000${cursor}`);
        ids.push(...page.json.entries.map((entry: any) => entry.event_id));
        if (page.json.next_cursor === null) break;
        cursor = `&cursor=${page.json.next_cursor}`;
      }
      const expected = [...this.sent.values()].filter((entry) => entry.tris_id === tris_id);
      expect([ids.length, new Set(ids).size]).toEqual(Array(2).fill(expected.length + others));
      const found = new Set(ids);
      expect(expected.filter(({ action_id }) => !found.has(action_id!))).toEqual([]);
      // By the version without a limit per day.
      const { json } = await server.get(`/v1/disc/score/${tris_id}?model=disc-1`);
      expect(json.total_tct).toBe(100 * ids.length);
    }
  }
}

const positionOf = ({ headers }: Answer) => Number(String(headers['credence-position']).split('.')[1]);

/** A killed server's lease on the read models lasts some seconds longer than it did. */
export async function reached(server: Server, write: Answer): Promise<void> {
  for (let tries = 0; tries < 30; tries++) {
    const { status } = await server.getAfter(write, '/v1/disc/changes?limit=1');
    if (status === 200) return;
    expect(status).toBe(503);
    await sleep(100);
  }
  throw new Error('the read models do not reach the last write');
}

/** @param env what a command on the store is told */
export async function expectVerified(env: Environment): Promise<void> {
  const { code, stdout, stderr } = await runCommand(['verify'], env);
  if (code !== 0) throw new Error(`verify ends with ${code}: ${stdout}${stderr}`);
}
