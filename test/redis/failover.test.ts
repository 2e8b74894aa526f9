import { verify } from '../../src/read-side/verify.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { eventually, recovery } from '../contracts/harness.js';
import { type WatchedRedis, startSentinels } from '../servers/sentinels.js';
import { describeOwnRedis } from '../servers/redis.js';
import { type RedisService, startRedisService } from './service.js';

/** Redis on several servers: one of them is lost, and its replica takes its place. */

const LONG = 120_000;

describeOwnRedis('a master and a replica, watched by three Sentinels', () => {
  let group: WatchedRedis;
  let service: RedisService;
  let jobs: BullmqJobs;

  beforeAll(async () => {
    group = await startSentinels();
    service = await startRedisService(group.url);
    jobs = await BullmqJobs.open(group.url, { prefix: '{failover}' });
    jobs.handle('double', async ({ input }) => 2 * (input['n'] as number));
    await jobs.start();
  }, LONG);
  afterAll(async () => {
    await jobs?.close();
    await service?.close();
    await group?.stop();
  }, LONG);

  async function scoreAt(position: string): Promise<number> {
    let total = 0;
    await eventually(async () => {
      const headers = { 'credence-min-position': position };
      const answer = await service.get('/v1/disc/score/tris:alice', headers);
      total = answer.json.total_tct;
      return answer.status === 200;
    }, 'the score');
    return total;
  }

  async function doubled(n: number): Promise<unknown> {
    await eventually(
      () =>
        jobs.enqueue('double', `job-${n}`, { n }).then(
          () => true,
          () => false,
        ),
      'the job is enqueued',
    );
    await eventually(async () => (await jobs.get('double', `job-${n}`))?.status === 'completed', 'the job is done');
    return (await jobs.get('double', `job-${n}`))!.result;
  }

  test(
    'reads, writes and jobs work; after the loss of a master they work again by themselves, and nothing is missing',
    async () => {
      let position = '';
      for (let n = 0; n < 20; n++) position = await service.relay('tris:alice');
      expect(await scoreAt(position)).toBe(2_000);
      expect(await doubled(1)).toBe(2);
      const lost = group.master();
      await lost.kill();
      // Commands are recorded meanwhile.
      position = await service.relay('tris:alice');
      await recovery('the master behind Sentinels was lost', scoreAt(position));
      expect(await scoreAt(position)).toBe(2_100);
      expect(group.master()).not.toBe(lost);
      expect(await doubled(2)).toBe(4);
      const { eventStore, readModels } = service.stores;
      await eventually(
        () =>
          verify(eventStore, readModels).then(
            ({ difference }) => difference === null,
            () => false,
          ),
        'read models that equal a fresh fold',
      );
    },
    LONG,
  );
});
