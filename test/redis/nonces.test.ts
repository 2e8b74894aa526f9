import { Challenges } from '../../src/features/accounts/challenges.js';
import { Signatures } from '../../src/features/accounts/signatures.js';
import { Problem } from '../../src/kernel/problems.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { eventually } from '../contracts/harness.js';
import { Proxy } from '../servers/proxy.js';
import { RedisServer, describeOwnRedis } from '../servers/redis.js';

const request = { address: '0x9D85ca56217D2bb651b00f15e694EB7E713637D4', chain_id: 1, purpose: 'sign_in' } as const;
const challengesOn = (keyValue: RedisKeyValue) =>
  new Challenges({ url: 'http://here.test' } as never, { secret: () => 'secret' } as never, keyValue, Date.now);

describeOwnRedis('a Redis that has lost which nonces were used', () => {
  test('accepts none that was issued before', async () => {
    const redis = await RedisServer.start();
    const keyValue = await RedisKeyValue.open({ url: redis.url, clock: Date.now });
    try {
      const challenges = challengesOn(keyValue);
      const used = await challenges.give({ ...request, tris_id: null });
      await challenges.use(await challenges.find(used.message, ['sign_in']));
      await expect(challenges.find(used.message, ['sign_in'])).rejects.toMatchObject({ code: 'nonce_used' });
      await redis.kill();
      await redis.run();
      const answers = () =>
        keyValue.get('none').then(
          () => true,
          () => false,
        );
      await eventually(answers, 'an answer of the empty Redis');
      await expect(challenges.find(used.message, ['sign_in'])).rejects.toMatchObject({ code: 'siwe_nonce_unknown' });
      const next = await challenges.give({ ...request, tris_id: null });
      expect(await challenges.find(next.message, ['sign_in'])).toEqual(next);
    } finally {
      await keyValue.close();
      await redis.stop();
    }
  });
});

describeOwnRedis('a sign-in whose chain does not answer', () => {
  let redis: RedisServer;
  let network: Proxy;
  beforeAll(async () => {
    redis = await RedisServer.start();
    network = await Proxy.to(redis.port);
  });
  afterAll(async () => {
    await network?.close();
    await redis?.stop();
  });

  test('can be repeated once, also if Redis is told twice that it may be', async () => {
    const open = (port: number) => RedisKeyValue.open({ url: `redis://127.0.0.1:${port}`, clock: Date.now });
    const [first, second] = [await open(network.port), await open(redis.port)];
    const [challenges, others] = [challengesOn(first), challengesOn(second)];
    const challenge = await challenges.give({ ...request, tris_id: null });
    // A script that Redis does not know yet is sent after its answer says so.
    for (const store of [first, second]) await Promise.all([store.take('none'), store.replace('none', 1, 2, 1)]);
    let isAsked = false;
    const ask = () => {
      isAsked = true;
      network.mode = 'deaf';
      throw new Problem('chain_unavailable', 'The chain does not answer.');
    };
    const signatures = new Signatures({ has: () => true, ask } as never, challenges);
    const judged = signatures.judge(challenge, `0x${'00'.repeat(66)}`).catch(() => undefined);
    await eventually(() => isAsked, 'the question');
    await eventually(async () => (await second.get(`siwe:${challenge.nonce}`)) === undefined, 'usable again');
    await others.use(challenge);
    network.mode = 'open';
    network.cut();
    await judged;
    await expect(others.use(challenge)).rejects.toMatchObject({ code: 'nonce_used' });
    await Promise.all([first, second].map((store) => store.close()));
  });
});
