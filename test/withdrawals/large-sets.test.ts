import { AffectedDecisions } from '../../src/features/access/affected-decisions.js';

test('a set may have more actions about one identity than a call can have arguments', async () => {
  const lists: unknown[] = [];
  const views = {
    async *parts(list: unknown) {
      lists.push(list);
      yield [];
    },
  };
  const decisions = new AffectedDecisions(views as never, {} as never, {} as never, {} as never);
  const actions = Array.from({ length: 200_000 }, (_, n) => ({ position: n + 7 }) as never);
  for await (const page of decisions.of('tris:bob', actions)) expect(page).toEqual([]);
  expect(lists).toHaveLength(1);
});
