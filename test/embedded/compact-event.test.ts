import { eventId } from '../../src/stores/ports/event-encoding.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import type { Json, JsonObject } from '../../src/kernel/json.js';
import { mostBytes, placeOf, readEntry, writeEntry } from '../../src/stores/lmdb/stored-event.js';

/** The form of events in the embedded log. */

const HASH = '0123456789abcdef'.repeat(4);
const STREAM = `action-${HASH}`;

const event = (data: JsonObject, more: Partial<RecordedEvent> = {}): RecordedEvent => ({
  stream: STREAM,
  revision: 0,
  id: eventId(STREAM, HASH, 0),
  type: 'ActionRelayed',
  data,
  metadata: {
    schema: 1,
    occurred_at: '2026-03-01T10:00:00.000Z',
    recorded_at: '2026-03-01T10:00:00.000Z',
    correlation_id: 'c3b1a0f2-8d4e-4f6a-9b7c-0d1e2f3a4b5c',
    actor: 'key:lender',
    body_hash: HASH,
    index: 0,
    size: 1,
  },
  position: 7,
  ...more,
});

function entryOf(given: RecordedEvent): Buffer {
  const { stream, revision: _, position: __, ...own } = given;
  const bytes = Buffer.alloc(mostBytes(stream, JSON.stringify(own).length), 0xff);
  return bytes.subarray(0, writeEntry(bytes, 0, given));
}

const ACTION = {
  tris_id: 'tris:bob',
  metric: 'financial_loan_repayment',
  criticality: 'High',
  platform_id: 'lender',
  evidence_hash: null,
};

/** As form 1, of which the words of form 2 are no part. */
const FORM_1 =
  '011b355a328b00200123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefc088330638cd9e575c2a9a0b6c46494b5a320b950fa8747269733a626f6210b866696e616e6369616c5f6c6f616e5f72657061796d656e74111b12a66c656e64657213819800c101897ea30a800000028a0388c3b1a0f28d4e4f6a9b7c0d1e2f3a4b5c05aa6b65793a6c656e6465720687200123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef09c00ac1da4f7f56';

test('an entry of form 1 is read: logs contain these bytes', () => {
  const entry = Buffer.from(FORM_1, 'hex');
  expect(readEntry(entry, entry.length, 7)).toEqual(event(ACTION));
});

test('an event is stored as documented', () => {
  const metadata = { ...event({}).metadata, salt: '00112233445566778899aabbccddeeff' };
  const data = { ...ACTION, source: 'vouched', counterparty: 'tris:carol' };
  expect(entryOf(event(data, { metadata })).toString('hex')).toBe(
    '021b355a328b00200123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefc088330638cd9e575c2a9a0b6c46494b5a320b970fa8747269733a626f6210b866696e616e6369616c5f6c6f616e5f72657061796d656e74111b12a66c656e6465721381803f80408042aa747269733a6361726f6c9900c101897ea30a800000028a0388c3b1a0f28d4e4f6a9b7c0d1e2f3a4b5c05aa6b65793a6c656e6465720687200123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef09c00ac1803e871000112233445566778899aabbccddeeff9af87db7',
  );
});

test.each<[string, Json]>([
  ['words', ['schema', 'ActionRelayed', 'webhook_id', 'after', 'words']],
  [
    'hashes',
    [HASH, HASH.toUpperCase(), `${HASH.slice(1)}g`, HASH.slice(1), 'abcdef', 'ab'.repeat(255), 'ab'.repeat(256)],
  ],
  [
    'after prefixes',
    [`action-${HASH}`, `wallet-0x${HASH.slice(0, 40)}`, `0x${HASH.slice(0, 40)}`, `other-${HASH}`, `action-${HASH}0`],
  ],
  [
    'UUIDs',
    [
      'c3b1a0f2-8d4e-4f6a-9b7c-0d1e2f3a4b5c',
      'C3b1a0f2-8d4e-4f6a-9b7c-0d1e2f3a4b5c',
      'action-c3b1a0f2-8d4e-4f6a-9b7c-0d1e2f3a4b5c',
      'c3b1a0f2-8d4e-4f6a-9b7c_0d1e2f3a4b5c',
      'x'.repeat(36),
    ],
  ],
  [
    'times',
    [
      '2026-03-01T10:00:00.000Z',
      '2026-03-01T10:00:00.000Z',
      '9999-12-31T23:59:59.999Z',
      '0000-00-00T00:00:00.000Z',
      '4095-15-31T31:63:63.999Z',
      '2026-16-01T10:00:00.000Z',
      '2026-03-01T10:00:00.000+',
      '2026-03-01 10:00:00.000Z',
      '2026-03-01T10:00:0x.000Z',
    ],
  ],
  [
    'strings',
    [
      '',
      'a',
      'a'.repeat(31),
      'a'.repeat(32),
      'é',
      '漢字 – "quoted"\n\u0000\u2028',
      '😀'.repeat(40),
      'a'.repeat(70_000),
      '\u0080',
      '\u00ff'.repeat(24),
    ],
  ],
  [
    'numbers',
    [
      0,
      1,
      63,
      64,
      127,
      128,
      16_383,
      16_384,
      2 ** 31,
      2 ** 32,
      2 ** 49,
      2 ** 53 - 1,
      -1,
      -64,
      1 - 2 ** 53,
      0.1,
      -1.5,
      5e-324,
    ],
  ],
  ['the rest', [true, false, null, [], {}, [[]], Array(200).fill(null), { a: { b: { c: {} } } }]],
  ['objects of many members', Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`member ${n}`, n]))],
  [
    'times among many members',
    Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`at ${n}`, `2026-03-01T10:00:00.00${n % 3}Z`])),
  ],
  ['members in their order', { z: 1, a: 2, 7: 3, schema: 4, '': 5, é: 6 }],
  ['a member named __proto__', JSON.parse('{"__proto__":{"polluted":true},"b":1}') as Json],
])('%s come back exactly', (_what, value) => {
  const given = event({ value }, { stream: 'sample-1' });
  const entry = entryOf(given);
  const read = readEntry(entry, entry.length, 7);
  expect(JSON.stringify(read)).toBe(JSON.stringify(given));
  expect(read).toEqual(given);
  expect(({} as JsonObject)['polluted']).toBeUndefined();
  expect(placeOf(entry)).toEqual({ stream: 'sample-1', revision: 0 });
});

test('any value comes back exactly, beside any other', () => {
  let seed = 1;
  const below = (limit: number) => (seed = (seed * 48_271) % 2_147_483_647) % limit;
  const times = Array.from({ length: 3 }, (_, n) => `2026-03-01T10:00:00.00${n}Z`);
  const ids = ['c3b1a0f2-8d4e-4f6a-9b7c-0d1e2f3a4b5c', HASH, STREAM, 'tris:bob', 'schema', 'webhook_id', 'é'];
  const leaves: Json[] = [...times, ...times, ...ids, '', null, true, 0, 63, 64, -5, 0.25, 2 ** 40];
  const value = (depth: number): Json => {
    const kind = depth > 3 ? 2 : below(6);
    if (kind > 1) return leaves[below(leaves.length)]!;
    const items = Array.from({ length: below(24) }, () => value(depth + 1));
    if (kind === 0) return items;
    return Object.fromEntries(items.map((item, n) => [n % 5 === 0 ? `${times[n % 3]} ${n}` : `m${n}`, item]));
  };
  for (let n = 0; n < 300; n++) {
    const given = event({ value: value(0), at: times[n % 3]! });
    const entry = entryOf(given);
    expect(JSON.stringify(readEntry(entry, entry.length, 7))).toBe(JSON.stringify(given));
  }
});

test('no value is mistaken for another that was read before', () => {
  let seed = 7;
  const below = (limit: number) => (seed = (seed * 48_271) % 2_147_483_647) % limit;
  const two = (limit: number) => String(below(limit)).padStart(2, '0');
  const time = () => `${2000 + below(100)}-${two(13)}-${two(32)}T${two(24)}:${two(60)}:${two(60)}.${100 + below(900)}Z`;
  const name = () => Array.from({ length: below(31) }, () => String.fromCharCode(97 + below(3))).join('');
  const digits = (count: number) => Array.from({ length: count }, () => below(16).toString(16)).join('');
  const uuid = () => [8, 4, 4, 4, 12].map(digits).join('-');
  for (let n = 0; n < 2_000; n++) {
    const stream = [`action-${digits(64)}`, `access-${uuid()}`, `wallet-0x${digits(40)}`, name()][below(4)]!;
    const values = [time(), time(), name(), name(), uuid(), digits(64), `0x${digits(40)}`, time()];
    const given = event({ values }, { stream, position: n, id: uuid() });
    const entry = entryOf(given);
    expect(JSON.stringify(readEntry(entry, entry.length, n))).toBe(JSON.stringify(given));
  }
});

test('a stream that is cut off is no stream', () => {
  const entry = entryOf(event(ACTION));
  for (let length = 0; length < 39; length++) expect(placeOf(Buffer.from(entry.subarray(0, length)))).toBeUndefined();
});

test.each([1.5, 2 ** 32, -1])('a revision of %s, which the index cannot store, gives an entry no place', (revision) => {
  expect(placeOf(entryOf(event(ACTION, { revision })))).toBeUndefined();
});

test('any changed byte is detected', () => {
  const entry = entryOf(event(ACTION));
  for (let place = 0; place < entry.length; place++) {
    const changed = Buffer.from(entry);
    changed[place]! ^= 1 << (place % 8);
    const { damage } = readEntry(changed, changed.length, 7);
    expect([place, damage?.reason]).toEqual([place, expect.any(String)]);
  }
});

test('metadata comes back with its members in their order, whatever they are', () => {
  const { metadata } = event({});
  const given = event({}, { metadata: { idempotency: HASH, ...metadata, traceparent: `00-${HASH}` } });
  const entry = entryOf(given);
  expect(JSON.stringify(readEntry(entry, entry.length, 7))).toBe(JSON.stringify(given));
});

test('an action takes about a third of the bytes of its JSON', () => {
  const given = event(ACTION);
  expect(entryOf(given).length).toBeLessThan(0.38 * JSON.stringify(given).length);
});
