import { parseJson, parseLines, parseList } from '../../src/http/json-body.js';
import { Problem } from '../../src/kernel/problems.js';

/** Bodies that are lists: each item is judged by itself. */

const codesOf = (items: unknown) =>
  (items as unknown[]).map((item) => (item instanceof Problem ? [item.code, item.message] : item));

const membersOf = (count: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`m${n}`, n])));

describe('lines', () => {
  const lines = async (text: string | Buffer, most = 100) =>
    codesOf(await parseLines(Buffer.from(text as string), { name: 'items', most }));

  test('are values, whatever ends them, and blank ones do not count', async () => {
    expect(await lines('{"a":1}\n{"a":2}\r\n\n \t\r\n{"a":3}')).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }]);
    expect(await lines('')).toEqual([]);
  });

  test('that are not JSON, not UTF-8, cut off, or repeat a name are refused alone', async () => {
    const text = Buffer.concat([
      Buffer.from('{"a":1}\nnonsense\n{"a":1,"a":2}\n{"a":1e999}\n'),
      Buffer.from([0x22, 0xff, 0x22, 0x0a]),
      Buffer.from('{"a":2}\n{"a":'),
    ]);
    expect(await lines(text)).toEqual([
      { a: 1 },
      ['malformed_json', 'The line is not JSON: unexpected text in "nonsense".'],
      ['malformed_json', 'The name "a" occurs twice in one object.'],
      ['validation_failed', expect.stringMatching(/^\/a: /)],
      ['malformed_json', 'The line is not valid UTF-8.'],
      { a: 2 },
      ['malformed_json', 'The line is not JSON: it ends too early.'],
    ]);
  });

  test('that are too many are not read, but for one', async () => {
    expect(await lines('1\n2\n3\nnonsense\n', 2)).toEqual([1, 2, 3]);
  });

  test('with too many values together are refused whole', async () => {
    await expect(lines(`{"a":1}\n${membersOf(1_000)}`)).rejects.toMatchObject({ code: 'batch_too_large' });
    await expect(lines(`${membersOf(11)}\n`.repeat(100))).rejects.toMatchObject({ code: 'batch_too_large' });
    expect(await lines(`${membersOf(8)}\n`.repeat(100))).toHaveLength(100);
  });
});

describe('the list of a JSON body', () => {
  const list = { name: 'items', most: 3 };
  const items = async (text: string) =>
    codesOf(((await parseList(Buffer.from(text), list)) as { items: unknown }).items);

  test('has a refusal in the place of an item with a flaw, with pointers into the item', async () => {
    const body = await parseList(Buffer.from('{"items":[{"a":1},{"a":[-0],"b":"\\ud800"},{"a":2}]}'), list);
    const [first, flawed, last] = (body as { items: [unknown, Problem, unknown] }).items;
    expect([first, last]).toEqual([{ a: 1 }, { a: 2 }]);
    expect(flawed.extra.errors!.map(({ pointer, code }) => [pointer, code])).toEqual([
      ['/a/0', 'unsafe_number'],
      ['/b', 'ill_formed_text'],
    ]);
    expect(await items('{"items":[-0,1]}')).toEqual([['validation_failed', expect.any(String)], 1]);
  });

  test.each([
    ['a flaw beside the list', '{"items":[-0],"b":-0}'],
    ['a flaw in a name like that of the list', '{"items":[-0],"items2":[-0]}'],
    ['more items than it may have', '{"items":[-0,1,2,3]}'],
    ['a list that is none', '{"items":{"0":-0}}'],
    ['too many values', `{"items":[${membersOf(30)}]}`],
    ['a repeated name in an item', '{"items":[{"a":1,"a":2}]}'],
  ])('is refused as a whole for %s', async (_what, text) => {
    await expect(items(text)).rejects.toThrow(Problem);
  });
});

test('a body has 32 levels at most', () => {
  const nested = (levels: number) => Buffer.from(`${'['.repeat(levels)}${']'.repeat(levels)}`);
  expect(() => parseJson(nested(32))).not.toThrow();
  expect(() => parseJson(nested(33))).toThrow('a body may have at most 32 levels');
});
