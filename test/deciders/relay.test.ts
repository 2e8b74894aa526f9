import { sha256Hex } from '../../src/kernel/hash.js';
import { type Action, actionStream, decide } from '../../src/features/relay/domain/relay.js';
import { toAction } from '../../src/features/relay/relay.dto.js';

const given = (more: Partial<Action> = {}): Action => ({
  tris_id: 'tris:alice',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'High',
  platform_id: 'lender',
  occurred_at: null,
  external_id: null,
  evidence_uri: null,
  ...more,
});

describe('what is recorded of an action', () => {
  test('the relayed action, and a credonation with its TCT', () => {
    const occurred_at = Date.UTC(2025, 5, 1);
    expect(decide(given({ occurred_at }), 'tris:bank', 'vouched')).toEqual([
      {
        type: 'ActionRelayed',
        schema: 2,
        occurredAt: occurred_at,
        data: {
          tris_id: 'tris:alice',
          metric: 'financial_loan_repayment',
          criticality: 'High',
          platform_id: 'lender',
          evidence_hash: null,
          source: 'vouched',
        },
      },
      {
        type: 'CredonationRecorded',
        schema: 2,
        occurredAt: occurred_at,
        data: { tris_id: 'tris:alice', platform_id: 'lender', amount: 100, category: 'financial', source: 'vouched' },
      },
    ]);
  });

  test.each([
    ['Minimal', 10],
    ['Low', 30],
    ['Moderate', 70],
    ['High', 100],
    ['Critical', 140],
  ] as const)('a %s action is endorsed with %i', (criticality, amount) => {
    expect(decide(given({ criticality }), null, 'vouched')[1]!.data).toMatchObject({ amount });
  });

  const types = (action: Action, owner: string | null) => decide(action, owner, 'vouched').map(({ type }) => type);
  test('a flag is no endorsement', () => {
    expect(types(given({ action_type: 'default_flags' }), 'tris:bank')).toEqual(['ActionRelayed']);
    expect(types(given({ action_type: 'flags' }), null)).toEqual(['ActionRelayed']);
  });
  test('nobody endorses itself', () => {
    expect(types(given({ tris_id: 'tris:bank' }), 'tris:bank')).toEqual(['ActionRelayed']);
    expect(types(given({ tris_id: 'tris:platform:lender' }), null)).toEqual(['ActionRelayed']);
    expect(types(given({ tris_id: 'tris:platform:lender' }), 'tris:bank')).toHaveLength(2);
  });
  test('of the evidence, only its hash is recorded', () => {
    const evidence_uri = 'https://example.org/case/7';
    const text = JSON.stringify(decide(given({ evidence_uri }), null, 'vouched'));
    expect(text).toContain(sha256Hex(evidence_uri));
    expect(text).not.toContain('example.org');
  });
});

describe('the stream of an action', () => {
  const fresh = () => 'uuid';
  test('is found again by the platform and its own id for the action, whatever the Idempotency-Key', () => {
    const stream = actionStream(given({ external_id: 'x' }), null, fresh);
    expect(stream).toMatch(/^action-[0-9a-f]{64}$/);
    expect(actionStream(given({ external_id: 'x', tris_id: 'tris:bob' }), 'key', fresh)).toBe(stream);
    expect(actionStream(given({ external_id: 'y' }), null, fresh)).not.toBe(stream);
    expect(actionStream(given({ external_id: 'x', platform_id: 'other' }), null, fresh)).not.toBe(stream);
  });
  test('does not confuse ("ab", "c") with ("a", "bc")', () => {
    const stream = (platform_id: string, external_id: string) =>
      actionStream(given({ platform_id, external_id }), null, fresh);
    expect(stream('ab', 'c')).not.toBe(stream('a', 'bc'));
  });
  test('is found again by the Idempotency-Key alone', () => {
    expect(actionStream(given(), 'key', fresh)).toBe(actionStream(given({ tris_id: 'tris:bob' }), 'key', fresh));
    expect(actionStream(given(), 'key', fresh)).not.toBe(actionStream(given(), 'other', fresh));
  });
  test('is new with neither', () => {
    expect(actionStream(given(), null, fresh)).toBe('action-uuid');
  });
  test('does not contain client text', () => {
    expect(actionStream(given({ external_id: 'personal-name' }), null, fresh)).not.toContain('personal');
  });
});

describe('a submission in canonical terms', () => {
  const now = Date.UTC(2026, 0, 1);
  const body = {
    tris_id: 'tris:alice',
    action_type: 'vote',
    category: 'governance',
    criticality: 'hIGH',
    platform_id: 'dao',
  };
  test('has the category’s alias and the criticality’s case resolved', () => {
    expect(toAction(body, now)).toEqual(
      given({ action_type: 'vote', category: 'behavioral', criticality: 'High', platform_id: 'dao' }),
    );
  });
  test('may be a minute ahead of our clock, not more', () => {
    const at = (ms: number) => toAction({ ...body, occurred_at: new Date(ms).toISOString() }, now);
    expect(at(now + 60_000).occurred_at).toBe(now + 60_000);
    expect(() => at(now + 60_001)).toThrow(/must not be in the future/);
  });
});
