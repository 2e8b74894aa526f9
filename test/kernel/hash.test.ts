import fc from 'fast-check';
import { eventId } from '../../src/stores/ports/event-encoding.js';
import { canonicalJson, hashOf } from '../../src/kernel/hash.js';
import type { Json } from '../../src/kernel/json.js';

describe('canonical JSON (RFC 8785)', () => {
  test('the example of its section 3.2.2, sorted as in 3.2.3', () => {
    const value = {
      // oxlint-disable-next-line no-loss-of-precision -- as printed there
      numbers: [333333333.33333329, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"/',
      literals: [null, true, false],
    };
    expect(canonicalJson(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  test('members are sorted by UTF-16 code units', () => {
    const keys = ['\u20ac', '\r', '\ufb33', '1', '\ud83d\ude00', '\u0080', '\u00f6'];
    const sorted = ['\r', '1', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33'];
    const text = canonicalJson(Object.fromEntries(keys.map((key) => [key, 1])));
    expect(text).toBe(`{${sorted.map((key) => `${JSON.stringify(key)}:1`).join(',')}}`);
  });

  test('does not depend on the order of members, and parses back to the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value as Json);
        expect(canonicalJson(JSON.parse(text) as Json)).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test.each([NaN, Infinity, 'x\ud800', undefined, 1n])('refuses %p', (value) => {
    expect(() => canonicalJson({ a: value } as never)).toThrow(TypeError);
  });
});

test('hashes of several parts are framed', () => {
  expect(hashOf('a', 'bc')).not.toBe(hashOf('ab', 'c'));
  expect(hashOf('a', 'b')).not.toBe(hashOf('a","b'));
  expect(hashOf('a')).toMatch(/^[0-9a-f]{64}$/);
});

test('event ids are UUIDs of version 5 that depend only on stream, body and ordinal', () => {
  const id = eventId('action-1', 'hash', 0);
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(id).toBe(eventId('action-1', 'hash', 0));
  // Written down: a change of namespace or framing would make every retry across an upgrade a second event.
  expect(id).toMatchInlineSnapshot(`"615ea832-2f96-5508-85fe-054625da4672"`);
  const others = [eventId('action-2', 'hash', 0), eventId('action-1', 'hash2', 0), eventId('action-1', 'hash', 1)];
  expect(new Set([id, ...others]).size).toBe(4);
});
