import { jest } from '@jest/globals';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Challenges } from '../../src/features/accounts/challenges.js';
import { limit, long, repeated } from '../faults/faults.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { account, codeOf, newAccount, signIn, start, verify } from '../sessions/wallet.js';

/** Starting a sign-in needs no credential, so it must cost nothing that stays. */

/** FAULTS_TIMES=100 starts half a million. */
const STARTS = repeated(2_000, 5_000);

const sizeOf = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce((sum, name) => {
    const found = statSync(join(folder, name));
    return sum + (found.isFile() ? found.size : 0);
  }, 0);

describe('a sign-in', () => {
  let service: Service;
  beforeEach(async () => void (service = await startService()));
  afterEach(() => service.close());

  test(
    'that is only started writes nothing to disk',
    async () => {
      const { keyValue, eventStore } = service.stores;
      // The first one of a store makes a part of the key of all nonces.
      await start(service, account(1).address);
      const stored = [
        jest.spyOn(keyValue, 'put'),
        jest.spyOn(keyValue, 'putIfAbsent'),
        jest.spyOn(eventStore, 'append'),
      ];
      await start(service, account(1).address);
      // Not `views`, where the projector renews its lease.
      const size = () => ['log', 'state'].map((folder) => sizeOf(join(service.config.data, folder)));
      const before = size();
      const challenges = service.app.get(Challenges, { strict: false });
      const request = { address: account(1).address, chain_id: 1, purpose: 'sign_in', tris_id: null } as const;
      // Before the loop: the server closes connections that are idle for as long as it takes.
      for (let round = 0; round < repeated(1, 4); round++) {
        await Promise.all(Array.from({ length: 50 }, () => start(service, account(1).address)));
      }
      for (let i = 0; i < STARTS; i++) await challenges.give(request);
      for (const spy of stored) expect(spy).not.toHaveBeenCalled();
      expect(size()).toEqual(before);
      if (long) process.stderr.write(`${STARTS} sign-ins started, ${before.join(' and ')} bytes before and after\n`);
    },
    limit(1_200_000),
  );

  test('needs the message that was issued with the nonce, to the letter, and by this service', async () => {
    const wallet = account(2);
    const [one, other] = [await start(service, wallet.address), await start(service, wallet.address)];
    const crossed = one.message.replace(one.nonce, other.nonce);
    const answer = await verify(service, crossed, await wallet.signMessage({ message: crossed }));
    // The same but for the nonce, unless a millisecond passed in between.
    const expected = one.message.replace(one.nonce, '') === other.message.replace(other.nonce, '') ? 200 : 401;
    expect(answer.status).toBe(expected);
    const elsewhere = await startService();
    try {
      const foreign = await start(elsewhere, wallet.address);
      const here = foreign.message.replaceAll(`127.0.0.1:${elsewhere.port}`, `127.0.0.1:${service.port}`);
      const refused = await verify(service, here, await wallet.signMessage({ message: here }));
      expect(codeOf(refused)).toEqual([401, 'siwe_nonce_unknown']);
    } finally {
      await elsewhere.close();
    }
  });
});

test('claims are limited more than other requests, and sign-ins go on', async () => {
  const service = await startService({ CREDENCE_RATE_LIMIT: '60' });
  try {
    const codes = [];
    for (let i = 0; i < 4; i++) codes.push((await signIn(service, newAccount(), { purpose: 'claim' })).status);
    expect(codes).toEqual([200, 200, 200, 429]);
    expect((await signIn(service, newAccount())).status).toBe(200);
  } finally {
    await service.close();
  }
});
