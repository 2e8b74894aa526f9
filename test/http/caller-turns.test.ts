import { CallerTurns } from '../../src/http/caller-turns.js';

/** Whose request begins when. */

const turnOfTheLoop = () => new Promise(setImmediate);

/** Requests of callers, all at once. @returns whose began so far, in their order */
function asking(turns: CallerTurns, callers: string[], now = 0): string[] {
  const begun: string[] = [];
  for (const caller of callers) {
    const turn = turns.take(caller, now);
    if (turn) void turn.then(() => begun.push(caller));
    else begun.push(caller);
  }
  return begun;
}
const of = (caller: string, count: number) => Array<string>(count).fill(caller);

test('a caller that is alone does not wait', () => {
  expect(asking(new CallerTurns(), of('a', 1_000))).toHaveLength(1_000);
});

test('beside a flood, the request of another caller begins in the next turn of the event loop', async () => {
  const turns = new CallerTurns();
  asking(turns, ['a', 'b']);
  await turnOfTheLoop();
  const begun = asking(turns, [...of('a', 30), 'b', 'c']);
  expect(begun).toEqual(of('a', 3));
  await turnOfTheLoop();
  expect(begun).toEqual([...of('a', 3), 'a', 'b', 'c']);
  for (let n = 0; n < 9; n++) await turnOfTheLoop();
  expect(begun).toEqual([...of('a', 3), 'a', 'b', 'c', ...of('a', 26)]);
});

test('a caller is alone again a second after the last request of another', () => {
  const turns = new CallerTurns();
  asking(turns, ['a', 'b', 'a'], 5_000);
  expect(asking(turns, of('a', 20), 5_999)).toHaveLength(1);
  const later = new CallerTurns();
  asking(later, ['a', 'b', 'a'], 5_000);
  expect(asking(later, of('a', 20), 6_000)).toHaveLength(20);
});
