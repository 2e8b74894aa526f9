import { setTimeout as sleep } from 'node:timers/promises';
import { verify } from '../../src/read-side/verify.js';
import { eventually, recovery } from '../contracts/harness.js';
import type { Answer } from '../http/client.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';
import { Proxy } from '../servers/proxy.js';
import { Receiver } from '../webhooks/receiver.js';
import { type PostgresService, startPostgresService } from './service.js';

const SCORE = '/v1/disc/score/tris:alice';

describePostgres('a PostgreSQL that was replaced or went back', () => {
  let postgres: PostgresServer;
  let network: Proxy;
  let service: PostgresService;
  const closing: (() => Promise<unknown>)[] = [];
  beforeEach(async () => {
    postgres = await PostgresServer.start();
    network = await Proxy.to(postgres.port);
    const url = postgres.url.replace(`:${postgres.port}/`, `:${network.port}/`);
    service = await startPostgresService(url, { keepsState: true });
  });
  afterEach(async () => {
    await service.close();
    await network.close();
    await Promise.all(closing.splice(0).map((close) => close()));
    await postgres.stop();
  });

  const differences = async () => (await verify(service.stores.eventStore, service.stores.readModels)).difference;
  const serving = () => postgres.sql("SELECT id FROM credence_store.generations WHERE status = 'ready'");
  const isServed = async () => (await service.get(SCORE)).status === 200;

  /**
   * Reads while `work` makes PostgreSQL go back to an older state, until the score is this one again.
   * @returns the answers that are behind an earlier one
   */
  async function wrongReads(what: string, score: unknown, work: () => Promise<unknown>): Promise<unknown[]> {
    let seen = 0;
    let ended = false;
    const wrong: unknown[] = [];
    const codes = new Set<string>();
    const reader = async () => {
      while (!ended) {
        const floor = seen;
        const answer = await service.get(SCORE);
        if (answer.status !== 200) codes.add(answer.json.code);
        else if (positionOf(answer.json.position) < floor) wrong.push([floor, answer.json]);
        else seen = Math.max(seen, positionOf(answer.json.position));
      }
    };
    const readers = Array.from({ length: 4 }, reader);
    await eventually(() => seen > 0, 'a read');
    await work();
    await eventually(() => codes.has('store_unavailable'), 'a refused read');
    await recovery(what, eventually(isServed, 'an answer'));
    await service.relay('tris:bob');
    await eventually(async () => scoresEqual(await service.get(SCORE), score), 'the score');
    ended = true;
    await Promise.all(readers);
    return wrong;
  }

  /** Puts another database in the place of the service's, which gets this name. */
  async function replaceDatabase(name: string, other: string): Promise<void> {
    const admin = `postgres://postgres@127.0.0.1:${postgres.port}/postgres`;
    const databases = ['credence', other];
    for (const database of databases) {
      await postgres.sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`, admin);
      await postgres.sql(
        `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${database}'`,
        admin,
      );
    }
    await postgres.sql(`ALTER DATABASE credence RENAME TO ${name}`, admin);
    await postgres.sql(`ALTER DATABASE ${other} RENAME TO credence`, admin);
    for (const database of [name, 'credence']) {
      await postgres.sql(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`, admin);
    }
  }

  test('the database of another log: 503 read_models_foreign, nothing in it changes, and the right one restores the service', async () => {
    const { url } = await postgres.database();
    const there = await startPostgresService(url);
    await scoreAfter(there, 7);
    await there.close();
    const score = await scoreAfter(service, 3);
    const state = () =>
      postgres.sql(`
        SELECT id, status, position, event_id, batch, part FROM credence_store.generations;
        SELECT content FROM credence_store.manifest;
        SELECT count(*), sum(crc) FROM credence_store.rows`);
    await replaceDatabase('own', nameOf(url));

    const foreign = await state();
    await eventually(async () => (await service.get(SCORE)).json.code === 'read_models_foreign');
    await eventually(async () => (await refusalOf(service)) === 'read_models_foreign');
    const head = await service.stores.eventStore.head();
    const until_ms = performance.now() + 3_000;
    while (performance.now() < until_ms) {
      const { status, json } = await service.get(SCORE);
      expect([status, json.code]).toEqual([503, 'read_models_foreign']);
      expect(await refusalOf(service)).toBe('read_models_foreign');
      await sleep(20);
    }
    expect(await service.stores.eventStore.head()).toBe(head);
    expect(await state()).toBe(foreign);
    const ready = await service.get('/health/ready');
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('read_models_foreign')]);
    const said = service.lines.filter((line) => line.includes('read_models_foreign'));
    // One of what is wrong and what is to be done, one of the first request that was refused, read or command.
    expect(said).toHaveLength(2);
    expect(said.filter((line) => line.includes('"level":"error"'))).toEqual([
      expect.stringContaining('Bring back the database that belongs to this log'),
    ]);

    await replaceDatabase('other', 'own');
    await recovery(
      'the right database is back',
      eventually(async () => (await refusalOf(service)) === null),
    );
    const position = await service.relay('tris:bob');
    await eventually(async () => (await service.get(SCORE, { 'credence-min-position': position })).status === 200);
    expect(scoreOf(await service.get(SCORE))).toEqual(score);
    expect(await differences()).toBeNull();
  });

  test('an older backup of itself: no read goes back in time', async () => {
    await scoreAfter(service, 2);
    const backup = await postgres.baseBackup();
    const score = await scoreAfter(service, 3);
    const resume = await service.stopProjector();
    await postgres.restore(backup);
    await eventually(async () => (await service.get(SCORE)).json.code === 'projection_behind');
    for (let i = 0; i < 20; i++) expect((await service.get(SCORE)).json.code).toBe('projection_behind');
    await resume();
    await recovery('an older backup of PostgreSQL', eventually(isServed));
    expect(scoreOf(await service.get(SCORE))).toEqual(score);
  });

  test('an older backup, restored while a worker runs: the position of a read is never before that of an earlier one', async () => {
    await scoreAfter(service, 2);
    const backup = await postgres.baseBackup();
    const score = await scoreAfter(service, 30);
    const wrong = await wrongReads('an older backup under a worker', score, () => postgres.restore(backup));
    expect(wrong).toEqual([]);
    expect(await differences()).toBeNull();
  });

  test('a backup from before a promotion: no read goes back behind it', async () => {
    await scoreAfter(service, 2);
    const backup = await postgres.baseBackup();
    const position = await service.post('/v1/models/disc-2/promote', {});
    const modelOf = async (headers = {}) => {
      const { status, json } = await service.get(SCORE, headers);
      return status === 200 ? json.model.id : json.code;
    };
    await eventually(async () => (await modelOf({ 'credence-min-position': position })) === 'disc-2');
    const resume = await service.stopProjector();
    await postgres.restore(backup);
    await eventually(async () => (await modelOf()) === 'projection_behind');
    for (let i = 0; i < 20; i++) expect(await modelOf()).toBe('projection_behind');
    await resume();
    await eventually(async () => (await modelOf()) === 'disc-2');
  });

  test('a failover to a standby that has not received the last commits: no read goes back in time', async () => {
    await scoreAfter(service, 2);
    const standby = await laggingStandby();
    const score = await scoreAfter(service, 30);
    const wrong = await wrongReads('a failover that lost commits', score, () => failOver(standby));
    expect(wrong).toEqual([]);
    expect(await differences()).toBeNull();
  });

  test('the same, for webhooks: what was sent since is sent again, nothing is left out, and a lost URL is told', async () => {
    await scoreAfter(service, 1);
    const [early, late] = [await Subscription.to(service, closing), await Subscription.to(service, closing)];
    let level = 0;
    const change = () => service.post('/v1/identities/tris:bob/bad-status', { level: ++level, reason_code: 'fraud' });
    await early.subscribe();
    await change();
    await eventually(() => early.levels.length === 1, 'the first message');
    const standby = await laggingStandby();
    await late.subscribe();
    await change();
    await change();
    await eventually(
      () => late.levels.length === 2 && early.levels.length === 3,
      'messages that the standby knows not',
    );

    await failOver(standby);
    await eventually(isServed, 'an answer');
    await change();
    await eventually(() => early.levels.length === 4, 'the message after it');
    await eventually(() => early.arrivals.length === 6, 'what was sent since');
    expect([early.levels, early.arrivals]).toEqual([[1, 2, 3, 4], expect.arrayContaining([1, 2, 2, 3, 3, 4])]);
    const lost = () => service.lines.filter((line) => line.includes('the URL of a webhook is lost'));
    await eventually(() => lost().length > 0, 'a line');
    expect(lost()).toEqual([expect.stringContaining(late.id)]);
    expect([await late.url(), late.levels]).toEqual([null, [2, 3]]);

    await late.setUrl();
    await eventually(() => late.levels.length === 3, 'what was missing');
    expect(late.levels).toEqual([2, 3, 4]);
    for (const each of [early, late]) await eventually(() => each.isComplete(), 'no delivery waits');
  });

  /** A standby that has received nothing since. */
  async function laggingStandby(): Promise<PostgresServer> {
    const standby = await postgres.standby();
    closing.push(() => standby.stop());
    await standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    await standby.sql('SELECT pg_reload_conf()');
    const receivers = () => standby.sql('SELECT count(*) FROM pg_stat_wal_receiver');
    await eventually(async () => (await receivers()) === '0', 'a standby that receives nothing');
    return standby;
  }

  async function failOver(standby: PostgresServer): Promise<void> {
    await postgres.kill();
    network.target = standby.port;
    await standby.promote();
  }

  test.each([
    ['an edited row', "UPDATE credence_store.rows SET content = content || ' '", / is not what was written/],
    ['no table for its rows', 'DROP TABLE credence_store.rows_1', /the table of its rows is gone/],
  ])('a generation with %s is never read or applied to again: another is built', async (_what, damage, said) => {
    const score = await scoreAfter(service, 5);
    await postgres.sql(damage);
    const seen = new Set<string>();
    await recovery(
      'damaged rows',
      eventually(async () => {
        const answer = await service.get(SCORE);
        seen.add(answer.status === 200 ? 'right' : answer.json.code);
        if (answer.status === 200) expect(scoreOf(answer)).toEqual(score);
        return answer.status === 200 && (await serving()) === 'g2';
      }),
    );
    expect([...seen]).toContain('read_models_damaged');
    const line = service.lines.find((text) => text.includes('read_models_damaged: g1: '));
    expect(line).toMatch(said);
    expect(await differences()).toBeNull();
  });

  test('commands are refused while the serving rows are lost and no worker builds them again', async () => {
    await scoreAfter(service, 1);
    const resume = await service.stopProjector();
    await postgres.sql('DROP TABLE credence_store.rows_1');
    await eventually(async () => (await refusalOf(service)) === 'read_models_damaged');
    const ready = await service.get('/health/ready');
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('read_models_damaged: g1')]);
    await resume();
    await eventually(async () => (await refusalOf(service)) === null);
  });

  test.each([
    ['without its tables', () => postgres.sql('DROP SCHEMA credence_store CASCADE')],
    ['in whose place is a new one', async () => replaceDatabase('old', nameOf((await postgres.database()).url))],
  ])('a database %s: the log is folded again', async (_what, empty) => {
    const score = await scoreAfter(service, 5);
    await empty();
    const losses = () => service.lines.filter((line) => line.includes('read models are gone')).length;
    await eventually(async () => {
      const answer = await service.get(SCORE);
      if (answer.status === 200) expect(scoreOf(answer)).toEqual(score);
      else expect(['projection_rebuilding', 'store_unavailable']).toContain(answer.json.code);
      return answer.status === 200 && losses() > 0;
    });
    expect(await differences()).toBeNull();
    expect(service.lines.join('')).toContain('read models are gone: they are built again from the log');
  });
});

/** A webhook, and who receives its messages. */
class Subscription {
  id = '';
  private readonly receiver = new Receiver();

  static async to(service: PostgresService, closing: (() => Promise<unknown>)[]): Promise<Subscription> {
    const subscription = new Subscription(service);
    await subscription.receiver.start();
    closing.push(() => subscription.receiver.stop());
    return subscription;
  }

  private constructor(private readonly service: PostgresService) {}

  async subscribe(): Promise<void> {
    const body = { url: this.receiver.url, events: ['bad_status.changed'] };
    this.id = (await this.service.send('POST', '/v1/webhooks', body)).json.webhook_id;
  }

  /** Of all messages, also those that came again. */
  get arrivals(): number[] {
    return this.receiver.received.map(({ message }) => message.data.level);
  }

  /** Of each message, in the order of their first arrival. */
  get levels(): number[] {
    return [...new Map(this.receiver.received.map(({ id, message }) => [id, message.data.level])).values()];
  }

  async url(): Promise<string | null> {
    return (await this.service.send('GET', `/v1/webhooks/${this.id}`)).json.url;
  }

  async setUrl(): Promise<void> {
    await this.service.send('PATCH', `/v1/webhooks/${this.id}`, { url: this.receiver.url });
  }

  async isComplete(): Promise<boolean> {
    const { json } = await this.service.send('GET', `/v1/webhooks/${this.id}/deliveries`);
    const delivered = json.deliveries.filter(({ status }: { status: string }) => status === 'delivered');
    return delivered.length === this.levels.length;
  }
}

/** Relays so many actions of alice, and answers her score with them. */
async function scoreAfter(service: PostgresService, actions: number): Promise<unknown> {
  let position = '';
  for (let n = 0; n < actions; n++) position = await service.relay('tris:alice');
  let answer: Answer;
  await eventually(async () => {
    answer = await service.get(SCORE, { 'credence-min-position': position });
    return answer.status === 200;
  });
  return scoreOf(answer!);
}

/** The code with which a command is refused; null if it is recorded. */
async function refusalOf(service: PostgresService): Promise<string | null> {
  try {
    await service.relay('tris:bob');
    return null;
  } catch (error) {
    return (JSON.parse((error as Error).message) as { code: string }).code;
  }
}

const nameOf = (url: string): string => new URL(url).pathname.slice(1);

/** What counts every action, and does not depend on the hour in which it is asked for. */
const scoreOf = ({ json }: Answer): unknown => json.total_tct;
const scoresEqual = (answer: Answer, score: unknown) =>
  answer.status === 200 && JSON.stringify(scoreOf(answer)) === JSON.stringify(score);
const positionOf = (position: string) => Number(position.split('.')[1]);
