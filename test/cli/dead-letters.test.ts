import { randomUUID } from 'node:crypto';
import { closeStores, openStores } from '../../src/stores/open.js';
import { plantAction } from '../contracts/sample-events.js';
import { SLOW, Store, action } from './credence.js';

let store: Store;
const ids: string[] = [];
beforeAll(async () => {
  store = await Store.create();
  store.variables['CREDENCE_ACTOR'] = 'anna';
  expect((await store.run('import', store.file('actions.ndjson', [action(1)]))).code).toBe(0);
  const stores = await openStores(store.data, Date.now);
  for (let n = 0; n < 3; n++) {
    ids.push(await plantAction(stores.eventStore, { tris_id: 'tris:member-1', metric: null }));
  }
  await closeStores(stores);
  expect((await store.run('import', store.file('more.ndjson', [action(2)]))).code).toBe(0);
}, SLOW);
afterAll(() => store.remove());

const status = async () =>
  (await store.json<{ dead_letters: { open: number; acknowledged: number } }>('status')).dead_letters;
const incomplete = async () =>
  (await store.json<{ score: { incomplete?: true } }>('replay', 'tris:member-1')).score.incomplete;

test(
  'dead letters are listed, acknowledged one by one or all, and a rebuild agrees',
  async () => {
    expect(await status()).toMatchObject({ open: 3, acknowledged: 0 });
    expect((await store.run('dead-letters', 'list')).stdout).toContain(ids[0]);
    expect(await incomplete()).toBe(true);

    const one = await store.run('dead-letters', 'acknowledge', ids[1]!, '--reason', 'lost_for_good');
    expect([one.code, one.stdout]).toEqual([
      0,
      expect.stringMatching(
        new RegExp(`^${ids[1]} of tris:member-1: acknowledged by cli:anna at \\S+, lost_for_good\n$`),
      ),
    ]);
    expect(await status()).toMatchObject({ open: 2, acknowledged: 1, oldest_open: [{ event_id: ids[0] }, {}] });
    expect(await incomplete()).toBe(true);

    expect((await store.run('dead-letters', 'acknowledge', '--all', '--reason', 'test_data')).code).toBe(0);
    expect(await status()).toEqual({ open: 0, acknowledged: 3, oldest_open: [] });
    expect(await incomplete()).toBeUndefined();
    expect((await store.run('status')).stdout).toContain('dead letters: 0 open, 3 acknowledged\n');
    const letters = await store.json<object[]>('dead-letters', 'list', '--acknowledged');
    expect(letters).toMatchObject(
      ids.map((event_id, i) => ({
        event_id,
        acknowledged: { by: 'cli:anna', reason_code: i === 1 ? 'lost_for_good' : 'test_data' },
      })),
    );

    expect((await store.run('rebuild', 'all', '--swap')).code).toBe(0);
    expect(await incomplete()).toBeUndefined();
    expect((await store.run('verify')).code).toBe(0);
  },
  SLOW,
);

test(
  'a wrong call says in one sentence what is wrong',
  async () => {
    for (const [args, code, sentence] of [
      [['acknowledge', '--reason', 'x'], 2, /Give event ids or --all/],
      [['acknowledge', 'nonsense', '--reason', 'x'], 2, /event_id must be a UUID/],
      [['acknowledge', ids[0]!, '--reason', 'Free text'], 2, /reason_code must be a lower-case letter/],
      [['acknowledge', randomUUID(), '--reason', 'x'], 1, /There is no dead letter/],
    ] as const) {
      const ran = await store.run('dead-letters', ...args);
      expect([args, ran.code, sentence.test(ran.stderr)]).toEqual([args, code, true]);
    }
  },
  SLOW,
);
