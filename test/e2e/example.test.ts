import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ended, runCommand, spawnCommand, spawnServer } from '../servers/launch.js';
import { Server } from './server.js';

/** Example data: `npm start -- --example` and `credence serve --example`. */

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'credence-example-test-'))));
afterEach(() => rm(folder, { recursive: true, force: true }));

const example = (data = folder) => Server.start({ data, args: ['--example'] });

/** How many events of each type the log of the folder has. */
async function events(data = folder): Promise<Record<string, number>> {
  const { stdout } = await runCommand(['export'], { CREDENCE_DATA: data });
  const counts: Record<string, number> = {};
  for (const line of stdout.trim().split('\n')) {
    const { type } = JSON.parse(line) as { type?: string };
    if (type !== undefined) counts[type] = (counts[type] ?? 0) + 1;
  }
  return counts;
}

test('it fills an empty folder with what the welcome says', async () => {
  const server = await example();
  const welcome = server.output.join('');
  expect(welcome).toMatch(/^Credence serves \S+ from \S+\n[\s\S]*\nExample data: the ratings of 90 members/);
  expect(server.errors.join('')).toContain('Recording example data in ');

  const score = async (member: string, query = '') =>
    (await server.get(`/v1/disc/score/tris:otc:${member}${query}`)).json;
  expect(await score('4172')).toMatchObject({ score_rating: 'Fair', verification: [{ status: 'zk-KYH' }] });
  expect(await score('905')).toMatchObject({ score_rating: 'BAD', evidence: { word: 'none' } });
  const { entries } = (await server.get('/v1/disc/score/tris:otc:1810/history?limit=1000')).json;
  expect(entries.at(-1)).toMatchObject({ metric: 'compliance_loan_default_flags', platform_id: 'harbor-loans' });
  expect(entries[0].counterparty).toMatch(/^tris:otc:\d+$/);
  const explained = (await server.get('/v1/disc/score/tris:otc:2642/explain')).json;
  expect(explained.withdrawn).toBe(1);
  expect((await server.get('/v1/organizations/tris:harbor')).json).toMatchObject({
    vetted: true,
    platform_ids: ['harbor-loans'],
  });
  expect((await server.get('/v1/policies/vp/VP_HARBOR_V1')).json).toMatchObject({ tris_org: 'tris:harbor' });
  const { jobs } = (await server.get('/v1/jobs')).json;
  expect(jobs).toMatchObject([{ kind: 'vp_replay', status: 'completed' }]);
  const { decisions } = (await server.get('/v1/access/decisions?limit=100')).json;
  const outcomes = decisions.map(({ policy_id, granted }: any) => `${policy_id} ${granted}`);
  expect(new Set(outcomes)).toEqual(
    new Set(['AP_ESCROW_V1', 'AP_HARBOR_LOAN_V1'].flatMap((id) => [`${id} true`, `${id} false`])),
  );
  await server.stop();
});

test('kills while it fills a folder leave no event out and record none twice', async () => {
  const whole = join(folder, 'whole');
  await (await example(whole)).stop();
  const expected = await events(whole);
  expect(expected['ActionRelayed']).toBe(2_082);
  const data = join(folder, 'killed');
  for (const delay of [0, 200, 600, 1_000]) {
    const killed = spawnServer({ CREDENCE_DATA: data }, undefined, undefined, ['--example']);
    const exit = ended(killed);
    await new Promise<void>((told) => killed.stderr!.on('data', () => told()));
    await sleep(delay);
    killed.kill('SIGKILL');
    await exit;
  }
  await (await example(data)).stop();
  expect(await events(data)).toEqual(expected);
  // Of a complete folder nothing is recorded again, whatever its user has changed.
  const server = await example(data);
  await server.delete('/v1/identities/tris:otc:4172/verifications/zk-KYH');
  await server.stop();
  await (await example(data)).stop();
  expect(await events(data)).toEqual({ ...expected, VerificationRevoked: 1 });
});

test('a folder with other events is refused in one sentence, and stays as it is', async () => {
  const server = await Server.start({ data: folder });
  await server.relay();
  await server.stop();
  const before = await events();
  const refusal = `credence: ${folder} has events that are not the example’s: start without --example, or name another folder with CREDENCE_DATA.\n`;
  for (const command of [
    ['serve', '--example'],
    ['--data', folder, 'serve', '--example'],
  ]) {
    const { code, stderr } = await ended(spawnCommand(command, { CREDENCE_DATA: folder }));
    expect([code, stderr]).toEqual([1, refusal]);
  }
  expect(await events()).toEqual(before);
});
