import { setTimeout as sleep } from 'node:timers/promises';
import { verify } from '../../src/read-side/verify.js';
import { recovery } from '../contracts/harness.js';
import { Child } from '../embedded/processes/child.js';
import type { Answer } from '../http/client.js';
import { longCases, longTest } from '../faults/faults.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';
import { type PostgresService, startPostgresService } from './service.js';

const SCORE = '/v1/disc/score/tris:alice';
/** For a process to start, on a busy machine. */
const START_MS = 40_000;
/** What an operator is promised: a lease moves, and everything recovers, within this. */
const PROMISE_MS = 10_000;

describePostgres('faults of PostgreSQL and of projectors', () => {
  let postgres: PostgresServer;
  let service: PostgresService;
  const children: Child[] = [];

  beforeEach(async () => {
    // It loses the batches since the last other commit, and writes none by itself.
    postgres = await PostgresServer.start({ wal_writer_delay: '10s' });
    service = await startPostgresService(postgres.url);
  });
  afterEach(async () => {
    await Promise.all(children.splice(0).map((child) => child.kill()));
    postgres.resume();
    await service.close();
    await postgres.stop();
  });

  async function relay(count: number): Promise<string> {
    const trisId = (n: number) => (n % 3 === 0 ? 'tris:alice' : `tris:member-${n}`);
    const positions = await Promise.all(Array.from({ length: count }, (_, n) => service.relay(trisId(n))));
    return positions.reduce((last, position) => (number(position) > number(last) ? position : last));
  }

  async function scoreAt(position: string): Promise<unknown> {
    let answer: Answer;
    await within(PROMISE_MS, async () => {
      answer = await service.get(SCORE, { 'credence-min-position': position });
      return answer.status === 200;
    });
    return scoreOf(answer!);
  }

  const differences = async () => (await verify(service.stores.eventStore, service.stores.readModels)).difference;

  /** In another process, which is sent what the service appends, since one process owns a log. */
  function startProjector(...args: string[]): Child {
    const script = new URL('./processes/projector.ts', import.meta.url);
    const { eventStore } = service.stores;
    const child = new Child(script, [`${service.log}-copy`, eventStore.logId, postgres.url, ...args]);
    children.push(child);
    const ended = new AbortController();
    void child.exited.then(() => ended.abort());
    void (async () => {
      child.send(await eventStore.head());
      for await (const slice of eventStore.subscribe(0, { signal: ended.signal })) child.send(slice);
    })();
    return child;
  }

  const applied = () => postgres.sql('SELECT position FROM credence_store.generations');

  async function holder(): Promise<string | undefined> {
    return (await service.stores.readModels.generations())[0]?.lease?.holder;
  }

  test('killed, and restarted without the last batches: 503 rather than older numbers, then the same answers again', async () => {
    const score = await scoreAt(await relay(150));
    let ended = false;
    const seen = new Set<string>();
    const reader = (async () => {
      while (!ended) {
        const answer = await service.get(SCORE);
        const { status, headers, json } = answer;
        if (status === 200) expect(scoreOf(answer)).toEqual(score);
        else expect(headers['retry-after']).toBeDefined();
        seen.add(status === 200 ? 'right' : json.code);
        await sleep(5);
      }
    })();

    await within(PROMISE_MS, () => seen.has('right'));
    let position: string;
    let resume = async () => {};
    // Nothing is lost if the lease was renewed between the last batch and the end.
    for (let before = 0, after = 0; before === after; after = Number(await applied())) {
      await resume();
      await scoreAt(await service.relay('tris:bob'));
      before = Number(await applied());
      await postgres.kill();
      await within(PROMISE_MS, () => seen.has('store_unavailable'));
      // What is recorded does not need PostgreSQL.
      position = await service.relay('tris:bob');
      resume = await service.stopProjector();
      await postgres.run();
      await within(PROMISE_MS, async () => (await service.get(SCORE)).json.code === 'projection_behind');
    }
    await resume();
    await recovery(
      'PostgreSQL was killed',
      within(PROMISE_MS, async () => (await service.get(SCORE)).status === 200),
    );
    ended = true;
    await reader;
    expect([...seen].sort()).toEqual(['projection_behind', 'right', 'store_unavailable']);
    expect(await scoreAt(position!)).toEqual(score);
    expect(await differences()).toBeNull();
  });

  longTest('the tables dropped while it runs: 503 with progress rather than wrong numbers, then the same', async () => {
    const score = await scoreAt(await relay(200));
    await postgres.sql('DROP SCHEMA credence_store CASCADE');
    const answers: Answer[] = [];
    await within(4 * PROMISE_MS, async () => {
      answers.push(await service.get(SCORE));
      return answers.at(-1)!.status === 200;
    });
    for (const answer of answers) {
      if (answer.status === 200) expect(scoreOf(answer)).toEqual(score);
      else expect(['projection_rebuilding', 'store_unavailable']).toContain(answer.json.code);
    }
    const rebuilding = answers.filter(({ json }) => json.code === 'projection_rebuilding');
    expect(rebuilding.at(-1)!.json.progress.total).toBeGreaterThan(0);
    expect(await differences()).toBeNull();
  });

  test('stalled: reads are refused within seconds, then at once, and succeed again when PostgreSQL continues', async () => {
    const score = await scoreAt(await relay(10));
    postgres.pause();
    const started = performance.now();
    const first = await Promise.all(Array.from({ length: 64 }, () => service.get(SCORE)));
    expect(performance.now() - started).toBeLessThan(PROMISE_MS);
    for (const { status, json } of first) expect([status, json.code]).toEqual([503, 'store_unavailable']);
    await within(PROMISE_MS, async () => {
      const asked = performance.now();
      await service.get(SCORE);
      return performance.now() - asked < 500;
    });
    postgres.resume();
    await recovery(
      'a PostgreSQL that was stalled',
      within(PROMISE_MS, async () => (await service.get(SCORE)).status === 200),
    );
    expect(scoreOf(await service.get(SCORE))).toEqual(score);
  });

  test.each(longCases(['apply'], ['read', 'sent', 'checkpoint']))(
    'a projector paused at "%s" beyond its lease finds that another has taken over, and writes nothing',
    async (step) => {
      const resume = await service.stopProjector();
      const child = startProjector('SIGSTOP', step, '2');
      await within(START_MS, () => steps(child).includes('started'));
      let position = '';
      while (!steps(child).includes('SIGSTOP')) position = await relay(20);
      const stale = await holder();

      await resume();
      const score = await scoreAt(position);
      const other = await holder();
      expect(other).not.toBe(stale);

      child.signal('SIGCONT');
      if (step === 'apply') await within(PROMISE_MS, () => outcomes(child).includes('refused'));
      for (let n = 0; n < 20; n++) expect(await scoreAt(await service.relay('tris:bob'))).toEqual(score);
      expect(await holder()).toBe(other);
      expect(await differences()).toBeNull();
    },
  );

  test.each(longCases(['sent'], ['read', 'apply', 'checkpoint']))(
    'a projector killed at "%s": another takes over within 10 s, and nothing is missing or twice',
    async (step) => {
      const resume = await service.stopProjector();
      const child = startProjector('SIGKILL', step, '2');
      await within(START_MS, () => steps(child).includes('started'));
      let ended = false;
      child.exited.then(() => (ended = true));
      let position = '';
      while (!ended) position = await relay(20);
      const died = performance.now();
      await resume();
      await scoreAt(position);
      expect(performance.now() - died).toBeLessThan(PROMISE_MS);
      expect(await differences()).toBeNull();
    },
  );

  test('metrics and liveness work while PostgreSQL is unavailable, and readiness reports it', async () => {
    const deadLetters = async () => /^credence_dead_letters .*$/m.exec((await service.get('/metrics')).text)?.[0];
    expect(await deadLetters()).toBe('credence_dead_letters 0');
    await postgres.kill();
    await within(PROMISE_MS, async () => (await service.get(SCORE)).status === 503);
    expect((await service.get('/health/live')).status).toBe(200);
    expect((await service.get('/metrics')).text).toContain('credence_');
    expect(await deadLetters()).toBeUndefined();
    const ready = await service.get('/health/ready');
    expect(ready.status).toBe(503);
    expect(ready.text).toMatch(
      /"projections","status":"failed","detail":"PostgreSQL at 127\.0\.0\.1:\d+\/credence (is un|gives no an)/,
    );
    await postgres.run();
    await within(PROMISE_MS, async () => (await service.get('/health/ready')).status === 200);
    expect(await deadLetters()).toBe('credence_dead_letters 0');
  });
});

/** Without the position, which grows with what is recorded of others. */
/** What counts every action, and does not depend on the hour in which it is asked for. */
const scoreOf = ({ json }: Answer): unknown => json.total_tct;
const number = (position: string) => Number(position.split('.')[1]);
const steps = (child: Child) => child.lines.map((line) => (line as string[])[0]);
const outcomes = (child: Child) => child.lines.map((line) => (line as string[])[1]);

async function within(ms: number, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${String(condition)}`);
    await sleep(10);
  }
}
