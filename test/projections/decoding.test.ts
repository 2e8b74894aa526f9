import {
  NewerSchema,
  decoderFor,
  defineEvent,
  nullable,
  text,
  wholeNumber,
} from '../../src/kernel/event-definition.js';
import { yieldIfDue } from '../../src/kernel/turn.js';
import { decodeEvent } from '../../projections/events.js';
import { decodeSlice } from '../../src/read-side/fold.js';
import { type Given, logOf, relayed } from './log.js';

const recorded = (given: Given) => logOf([given])[0]!;
const reading = decoderFor([
  defineEvent(
    'ThingRead',
    { tris_id: text, celsius: wholeNumber(-300, 10_000), note: nullable(text) },
    {
      schema: 3,
      upcasters: {
        1: ({ temperature, ...rest }) => ({ ...rest, fahrenheit: temperature! }),
        2: ({ fahrenheit, ...rest }) => ({
          ...rest,
          celsius: Math.round((((fahrenheit as number) - 32) * 5) / 9),
          note: null,
        }),
      },
    },
  ),
]);
const thing = (schema: number, data: Given['data']) =>
  reading(recorded({ type: 'ThingRead', schema, data: { tris_id: 'tris:a', ...data } }));

test('an event of an older schema is brought to the current one, step by step', () => {
  expect(thing(1, { temperature: 212 })).toMatchObject({
    type: 'ThingRead',
    data: { tris_id: 'tris:a', celsius: 100, note: null },
  });
  expect(thing(2, { fahrenheit: 32 }).data).toEqual({ tris_id: 'tris:a', celsius: 0, note: null });
  expect(thing(3, { celsius: 7, note: 'x' }).data).toEqual({ tris_id: 'tris:a', celsius: 7, note: 'x' });
});

test.each([
  ['data of another form', 3, { celsius: 'warm', note: null }, /not that of ThingRead schema 3/],
  ['an upcast that comes to nothing sound', 2, { fahrenheit: 'warm' }, /not that of ThingRead schema 2/],
  ['a version from before the first', 0, {}, /upcasting from schema 0 failed/],
])('%s is undecodable, with the reason', (_name, schema, data, reason) => {
  const event = thing(schema, data as Given['data']);
  expect(event).toMatchObject({ type: 'Undecodable', data: { tris_id: 'tris:a', event_type: 'ThingRead' } });
  expect((event.data as { reason: string }).reason).toMatch(reason);
});

test('a newer schema and an unknown type stop the reader', () => {
  expect(() => thing(4, {})).toThrow(NewerSchema);
  expect(() => decodeEvent(recorded(relayed('tris:a', 'social_vouch', 'Low', { schema: 3 })))).toThrow(
    /ActionRelayed schema 3; this build knows up to 2/,
  );
  expect(() => decodeEvent(recorded({ type: 'NeverHeardOf', data: {} }))).toThrow(/does not know the type/);
});

test('an undecodable event without valid times still has numbers for times', () => {
  const event = decodeEvent(recorded(relayed('tris:a', 'social_vouch', 'Low', { occurred_at: '?', recorded_at: '?' })));
  expect(event).toMatchObject({ type: 'Undecodable', data: { reason: 'its metadata holds no valid times' } });
  expect([event.occurred_at, event.recorded_at].every(Number.isSafeInteger)).toBe(true);
});

test.each(['a'.repeat(5_000), 'tris:a\0b', ''])(
  'what cannot be an identity does not become the key of a row',
  (trisId) => {
    const event = decodeEvent(recorded(relayed(trisId, 'social_vouch', 'Enormous')));
    expect(event).toMatchObject({ type: 'Undecodable', data: { tris_id: null } });
  },
);

test('of an append with an event of a newer build, no event is decoded', async () => {
  const action = relayed('tris:alice', 'financial_loan', 'High');
  const [before, first, newer] = logOf([action, action, { ...action, schema: 99 }]);
  Object.assign(first!.metadata, { index: 0, size: 2 });
  Object.assign(newer!.metadata, { index: 1, size: 2 });
  const { events, stop } = await decodeSlice([before!, first!, newer!], yieldIfDue);
  expect(events.map(({ position }) => position)).toEqual([1]);
  expect(stop).toBeInstanceOf(NewerSchema);
});
