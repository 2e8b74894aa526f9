import { Challenges } from '../../src/features/accounts/challenges.js';
import { Signatures } from '../../src/features/accounts/signatures.js';
import { Problem } from '../../src/kernel/problems.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { eventually } from '../contracts/harness.js';
import { Proxy } from '../servers/proxy.js';
import { RedisServer, describeOwnRedis } from '../servers/redis.js';

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
    const ofProcess = (keyValue: RedisKeyValue) =>
      new Challenges({ url: 'http://here.test' } as never, { secret: () => 'secret' } as never, keyValue, Date.now);
    const [challenges, others] = [ofProcess(first), ofProcess(second)];
    const address = '0x9D85ca56217D2bb651b00f15e694EB7E713637D4';
    const challenge = await challenges.give({ address, chain_id: 1, purpose: 'sign_in', tris_id: null });
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
