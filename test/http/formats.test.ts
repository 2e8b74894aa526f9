import {
  ACTION_TYPE,
  EXTERNAL_ID,
  IDEMPOTENCY_KEY,
  parseTimestamp,
  PLATFORM_ID,
  TRIS_ID,
} from '../../src/kernel/identifiers.js';
import { formatPosition, parsePosition } from '../../src/kernel/positions.js';

describe('timestamps', () => {
  test.each([
    ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31t12:00:00z', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31T12:00:00+05:30', '2026-01-31T06:30:00.000Z'],
    ['2025-12-31T23:59:59-00:01', '2026-01-01T00:00:59.000Z'],
    ['2026-01-31T12:00:00.1Z', '2026-01-31T12:00:00.100Z'],
    ['2026-01-31T12:00:00.123999999Z', '2026-01-31T12:00:00.123Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['0050-01-01T00:00:00Z', '0050-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
  ])('%s is %s', (text, iso) => expect(new Date(parseTimestamp(text)!).toISOString()).toBe(iso));

  test.each([
    '9999-12-31T23:59:59-23:59',
    '0000-01-01T00:00:00+23:59',
    '2026-02-30T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    '2016-12-31T23:59:60Z',
    '2026-01-01T00:00:00',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00+0100',
    '2026-01-01T00:00:00.Z',
    '2026-01-01T00:00:00.1234567890Z',
    '2026-01-01 00:00:00Z',
    '2026-01-01',
    '+002026-01-01T00:00:00Z',
    '1767225600000',
    '２026-01-01T00:00:00Z',
    '2026-01-01T00:00:00Z\n',
    '',
  ])('%j is none', (text) => expect(parseTimestamp(text)).toBeUndefined());
});

describe('identifiers', () => {
  test.each<[RegExp, string[], string[]]>([
    [
      TRIS_ID,
      ['tris@a', 'tris:platform:x.example', 'did:web:a', `tris@${'a'.repeat(123)}`],
      [
        'tris',
        'tris@',
        'did:',
        'Tris@a',
        'alice',
        'tris@a b',
        'tris@a\n',
        'tris@a/b',
        'tris@é',
        `tris@${'a'.repeat(124)}`,
      ],
    ],
    [PLATFORM_ID, ['a', 'A.b_c:d@e-f', 'a'.repeat(100)], ['', 'a b', 'a/b', 'a\n', 'a'.repeat(101)]],
    [
      ACTION_TYPE,
      ['a', 'loan_repayment', `a${'0'.repeat(63)}`],
      ['', '_a', '0a', 'A', 'a-b', 'a\n', `a${'0'.repeat(64)}`],
    ],
    [EXTERNAL_ID, ['a', 'a b', '~', 'x'.repeat(200)], ['', ' ', ' a', 'a ', 'é', 'a\tb', 'a\n', 'x'.repeat(201)]],
    [IDEMPOTENCY_KEY, ['a', 'a b', 'x'.repeat(255)], ['', ' ', 'a ', 'é', 'a\n', 'x'.repeat(256)]],
  ])('%p', (pattern, accepted, refused) => {
    expect(accepted.filter((text) => !pattern.test(text))).toEqual([]);
    expect(refused.filter((text) => pattern.test(text))).toEqual([]);
  });
});

test('a position on the wire reads back only for its own log', () => {
  expect(parsePosition(formatPosition('l-1', 42), 'l-1')).toBe(42);
  expect(parsePosition('l-1.0', 'l-1')).toBe(0);
  for (const wire of ['l-2.42', 'l-1.', 'l-1.042', 'l-1.-1', 'l-1.9007199254740993', 'l-1.4 2', 'l-1.42.1', '42']) {
    expect([wire, parsePosition(wire, 'l-1')]).toEqual([wire, undefined]);
  }
});
