import { SLOW, Store, action } from './credence.js';

interface Model {
  id: string;
  hash: string;
  active: boolean;
}
interface Replay {
  replay_id: string;
  promotes: { id: string };
  result: { count: number; down: number; before: { model: { id: string } }; after: { model: { id: string } } };
}

describe('credence models', () => {
  let store: Store;
  const active = async () => (await store.json<Model[]>('models', 'list')).find((model) => model.active)!.id;
  beforeAll(async () => {
    store = await Store.create();
    // Two critical actions of one day: disc-2 counts one of them.
    const twice = [0, 1].flatMap((n) =>
      Array.from({ length: 30 }, (_, i) =>
        action(1, { external_id: `n-${n}-${i}`, tris_id: `tris:p${i}`, criticality: 'Critical', category: 'social' }),
      ),
    );
    await store.json('import', store.file('actions.ndjson', twice));
  }, SLOW);
  afterAll(() => store.remove());

  test(
    'a new log is served by disc-2; a rollback and a promotion, based on a replay, switch it, and the rows are identical',
    async () => {
      expect((await store.run('models', 'list')).stdout).toMatch(
        /^model +active +hash\ndisc-1 +no +\w{64}\ndisc-2 +yes +\w{64}\n$/,
      );
      const back = await store.run('models', 'rollback', 'disc-2');
      expect([back.code, back.stdout]).toEqual([0, 'the platform uses disc-1\n']);
      expect(await active()).toBe('disc-1');

      const { replay_id, promotes, result } = await store.json<Replay>('models', 'replay', 'disc-2');
      expect(promotes.id).toBe('disc-2');
      expect(result).toMatchObject({
        count: 30,
        down: 30,
        before: { model: { id: 'disc-1' } },
        after: { model: { id: 'disc-2' } },
      });
      expect((await store.run('models', 'replay', 'disc-2')).stdout).toMatch(/^disc-1 → disc-2: 30 identities, /);

      const promoted = await store.json<object>('models', 'promote', 'disc-2', '--replay', replay_id);
      expect(promoted).toMatchObject({ active: { id: 'disc-2' }, previous: { id: 'disc-1' } });
      const { score } = await store.json<{ score: object }>('replay', 'tris:p1');
      expect(score).toMatchObject({ model: { id: 'disc-2' } });
      expect((await store.run('verify')).code).toBe(0);
    },
    SLOW,
  );

  test(
    'refuses what the service refuses',
    async () => {
      const unknown = await store.run('models', 'promote', 'disc-9');
      expect([unknown.code, unknown.stderr]).toEqual([
        2,
        'credence: The versions of the model are disc-1, disc-2; there is no "disc-9".\n',
      ]);
      const inactive = await store.run('models', 'rollback', 'disc-1');
      expect([inactive.code, /disc-1 was not promoted/.test(inactive.stderr)]).toEqual([1, true]);
      const { replay_id } = await store.json<Replay>('models', 'replay', 'disc-1');
      const other = await store.run('models', 'promote', 'disc-2', '--replay', replay_id);
      expect([other.code, /is not a replay of disc-2/.test(other.stderr)]).toEqual([1, true]);
    },
    SLOW,
  );
});
