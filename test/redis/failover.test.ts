import { Sender } from '../../src/features/webhooks/sender.js';
import { verify } from '../../src/read-side/verify.js';
import { RedisConnection } from '../../src/stores/redis/connection.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { eventually, recovery } from '../contracts/harness.js';
import { Proxy } from '../servers/proxy.js';
import { type SixNodes, startSixNodes } from '../servers/redis-cluster.js';
import { describeOwnRedis } from '../servers/redis.js';
import { startSentinels, type WatchedRedis } from '../servers/sentinels.js';
import { Receiver } from '../webhooks/receiver.js';
import { type RedisService, startRedisService } from './service.js';

/** Redis on several servers: one of them is lost, and its replica takes its place. */

const LONG = 180_000;

/** The service, and jobs beside it, on such a Redis. */
class Service {
  static async start(url: string): Promise<Service> {
    const service = await startRedisService(url, { CREDENCE_WEBHOOK_LOOPBACK: 'on' });
    // A busy machine may make the second attempt, too, before the receiver takes messages again.
    service.app.get(Sender, { strict: false }).retriesMs = Array.from({ length: 100 }, () => 5_000);
    await service.stores.jobs.start();
    const jobs = await BullmqJobs.open(url, { prefix: '{failover}' });
    jobs.handle('double', async ({ input }) => 2 * (input['n'] as number));
    await jobs.start();
    return new Service(service, jobs);
  }

  private constructor(
    private readonly service: RedisService,
    private readonly jobs: BullmqJobs,
  ) {}

  /** Each earns 100 TCT. */
  async relay(actions = 1): Promise<string> {
    let position = '';
    for (let n = 0; n < actions; n++) position = await this.service.relay('tris:alice');
    return position;
  }

  async scoreAt(position: string): Promise<number> {
    let total = 0;
    await eventually(async () => {
      const answer = await this.service.get('/v1/disc/score/tris:alice', { 'credence-min-position': position });
      total = answer.json.total_tct;
      return answer.status === 200;
    }, 'the score');
    return total;
  }

  async doubled(n: number): Promise<unknown> {
    const isEnqueued = () =>
      this.jobs.enqueue('double', `job-${n}`, { n }).then(
        () => true,
        () => false,
      );
    const status = () =>
      this.jobs.get('double', `job-${n}`).then(
        (job) => job?.status,
        () => undefined,
      );
    await eventually(isEnqueued, 'the job is enqueued');
    await eventually(async () => (await status()) === 'completed', 'the job is done');
    return (await this.jobs.get('double', `job-${n}`))!.result;
  }

  /** @returns its id */
  async createWebhook(url: string): Promise<string> {
    await this.service.post('/v1/webhooks', { url, events: ['bad_status.changed'] });
    const ids: string[] = [];
    for await (const events of this.service.stores.eventStore.readAll(0)) {
      for (const { type, data } of events) if (type === 'WebhookCreated') ids.push(String(data['webhook_id']));
    }
    return ids.at(-1)!;
  }

  /** As when the worker that delivers is lost, and another one takes over. */
  async passWebhooksOn(): Promise<void> {
    const { jobs } = this.service.stores;
    await jobs.cancel('webhooks', 'dispatch');
    await jobs.retry('webhooks', 'dispatch');
  }

  async setBad(level: number): Promise<void> {
    await this.service.post('/v1/identities/tris:alice/bad-status', { level, reason_code: 'fraud' });
  }

  async equalsFreshFold(): Promise<void> {
    const { eventStore, readModels } = this.service.stores;
    const isEqual = () =>
      verify(eventStore, readModels).then(
        ({ difference }) => difference === null,
        () => false,
      );
    await eventually(isEqual, 'read models that equal a fresh fold');
  }

  async close(): Promise<void> {
    await this.jobs.close();
    await this.service.close();
  }
}

describeOwnRedis('a master and a replica, watched by three Sentinels', () => {
  let group: WatchedRedis;
  let service: Service;

  beforeAll(async () => {
    group = await startSentinels();
    service = await Service.start(group.url);
  }, LONG);
  afterAll(async () => {
    await service?.close();
    await group?.stop();
  }, LONG);

  test(
    'reads, writes and jobs work; after the loss of a master they work again by themselves, and nothing is missing',
    async () => {
      expect(await service.scoreAt(await service.relay(20))).toBe(2_000);
      expect(await service.doubled(1)).toBe(2);
      const lost = group.master();
      await lost.kill();
      // Commands are recorded meanwhile.
      const position = await service.relay();
      await recovery('the master behind Sentinels was lost', service.scoreAt(position));
      expect(await service.scoreAt(position)).toBe(2_100);
      // The first Sentinel hears of it up to 110 ms after the one that led the failover.
      const hasNext = () => ![undefined, lost].includes(group.master());
      await eventually(hasNext, 'another master, by the first Sentinel');
      expect(await service.doubled(2)).toBe(4);
      await service.equalsFreshFold();
    },
    LONG,
  );
});

describeOwnRedis('Sentinels that answer late', () => {
  test(
    'a failover that is announced while a connection looks for the master does not end that connection',
    async () => {
      const group = await startSentinels();
      const ports = group.url.match(/(?<=127\.0\.0\.1:)\d+/g)!.map(Number);
      const proxies = await Promise.all(ports.map((port) => Proxy.to(port)));
      for (const proxy of proxies) proxy.delayMs = 1_000;
      let n = 0;
      const connection = await RedisConnection.open(group.url.replaceAll(/(?<=:)\d+/g, () => `${proxies[n++]!.port}`));
      try {
        await group.master().kill();
        const isBack = () =>
          connection
            .send((redis) => redis.set('key', 'value'))
            .then(
              () => true,
              () => false,
            );
        await eventually(isBack, 'the connection to the next master');
      } finally {
        await connection.close();
        await Promise.all(proxies.map((proxy) => proxy.close()));
        await group.stop();
      }
    },
    LONG,
  );
});

describeOwnRedis('a Redis Cluster of three masters, each with a replica', () => {
  let nodes: SixNodes;
  let service: Service;

  beforeAll(async () => {
    nodes = await startSixNodes();
    service = await Service.start(nodes.url);
  }, LONG);
  afterAll(async () => {
    await service?.close();
    await nodes?.stop();
  }, LONG);

  test(
    'each master is lost in turn: reads, writes and jobs work again by themselves, and nothing is missing',
    async () => {
      expect(await service.scoreAt(await service.relay(20))).toBe(2_000);
      const masters = nodes.masters();
      expect(masters).toHaveLength(3);
      for (const [n, lost] of masters.entries()) {
        await lost.kill();
        const position = await service.relay();
        await recovery(`master ${n + 1} of a Redis Cluster was lost`, service.scoreAt(position));
        expect(await service.scoreAt(position)).toBe(2_000 + 100 * (n + 1));
        expect(await service.doubled(n)).toBe(2 * n);
        await eventually(() => nodes.masters().length === 3, 'the replica of the lost master has taken its place');
        expect(nodes.masters()).not.toContain(lost);
        await lost.run();
        await nodes.whole();
      }
      await service.equalsFreshFold();
    },
    LONG,
  );

  test(
    'a replica that becomes the master without the last writes is noticed before its first answer counts',
    async () => {
      const connection = await RedisConnection.open(nodes.url);
      try {
        // Each is on another master.
        for (const key of ['taken-over-0', 'taken-over-1', 'taken-over-3']) {
          const read = () => connection.send((redis) => redis.get(key));
          await connection.send((redis) => redis.set(key, 'old'));
          await nodes.whole();
          // On a busy machine the replica may take over before it is told to.
          const { restarts } = connection;
          const takeOver = nodes.cutOff(key);
          await connection.send((redis) => redis.set(key, 'new'));
          takeOver();
          await eventually(async () => (await read().catch(() => 'new')) === 'old', 'an answer of the replica');
          expect(connection.restarts).toBeGreaterThan(restarts);
          await nodes.whole();
        }
      } finally {
        await connection.close();
      }
    },
    LONG,
  );

  test(
    'a replica that becomes the master without the last writes: every message of a webhook is delivered all the same',
    async () => {
      for (let n = 0; n < 3; n++) {
        const receiver = new Receiver();
        await receiver.start();
        try {
          const id = await service.createWebhook(receiver.url);
          const levels = () => receiver.received.map(({ message }) => message.data.level);
          await service.setBad(5);
          await eventually(() => levels().includes(5), 'the first message');
          await nodes.whole();
          const takeOver = nodes.cutOff(`credence:kv:=webhook:{${id}}:1`);
          receiver.answer = (_, response) => void response.destroy();
          await service.setBad(4);
          await eventually(() => levels().includes(4), 'the second message');
          takeOver();
          await service.passWebhooksOn();
          receiver.received.length = 0;
          receiver.answer = (_, response) => void response.writeHead(204).end();
          await service.setBad(3);
          await eventually(() => levels().includes(3), 'the third message');
          expect(levels()).toContain(4);
          await nodes.whole();
        } finally {
          await receiver.stop();
        }
      }
    },
    LONG,
  );
});
