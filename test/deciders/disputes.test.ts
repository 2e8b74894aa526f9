import fc from 'fast-check';
import {
  type Disputed,
  type Outcome,
  decideAnswer,
  decideLapse,
  decideOpen,
  disputeIdOf,
  disputeOf,
  disputeStream,
  dueState,
} from '../../src/features/disputes/domain/dispute.js';
import type { RecordedAction } from '../../src/features/relay/domain/withdrawal.js';
import type { Fact } from '../../src/kernel/event-definition.js';
import { Problem } from '../../src/kernel/problems.js';
import { type Given, RECORDED, logOf } from '../projections/log.js';

const ID = disputeIdOf('tris:alice', 'e0');
const FLAG: Disputed = {
  tris_id: 'tris:alice',
  about: 'action',
  event_id: 'e0',
  action_id: 'e0',
  platform_id: 'lendco',
  status: null,
  issuer: 'tris:lendco',
};
const stream = disputeStream(ID);
const opened = (statement_hash: string | null): Given => ({
  type: 'DisputeOpened',
  stream,
  data: { ...FLAG, statement_hash },
});
const answered = (outcome: Outcome, note_hash: string | null = null): Given => ({
  type: 'DisputeAnswered',
  stream,
  data: { tris_id: 'tris:alice', outcome, decided_by: 'tris:lendco', note_hash },
});
const LAPSED: Given = { type: 'DisputeLapsed', stream, data: { tris_id: 'tris:alice' } };
const given = (...events: Given[]) => disputeOf(logOf(events));
const open = (text: string | null, ...events: Given[]) => decideOpen(given(...events), FLAG, text);
const answer = (outcome: Outcome, ...events: Given[]) =>
  decideAnswer(given(...events)!, { outcome, decided_by: 'key:ops', note_hash: null });
const code = (code: string, members?: object) =>
  expect.objectContaining({ code, ...(members && { extra: { members } }) });
const types = (facts: readonly Fact[]) => facts.map(({ type }) => type);
const FIRST = (outcome: Outcome) => ({ dispute_id: ID, outcome, answered_at: RECORDED });

test('a statement is disputed once: the same text again changes nothing, another text is refused', () => {
  expect(open('a')).toMatchObject([{ type: 'DisputeOpened', data: { ...FLAG, statement_hash: 'a' } }]);
  expect(open('a', opened('a'))).toEqual([]);
  expect(open(null, opened(null))).toEqual([]);
  expect(() => open('b', opened('a'))).toThrow(code('dispute_open'));
});

test('after a rejection it is disputed again only with another text than any before', () => {
  const rejected = [opened('a'), answered('rejected')];
  expect(() => open('a', ...rejected)).toThrow(code('dispute_answered', FIRST('rejected')));
  expect(types(open('b', ...rejected))).toEqual(['DisputeOpened']);
  expect(types(open(null, ...rejected))).toEqual(['DisputeOpened']);
  const twice = [...rejected, opened('b'), answered('rejected')];
  for (const text of ['a', 'b']) expect(() => open(text, ...twice)).toThrow(code('dispute_answered'));
});

test('an upheld dispute is not opened again', () => {
  for (const text of ['a', 'b', null]) {
    const problem = code('dispute_answered', FIRST('upheld'));
    expect(() => open(text, opened('a'), answered('upheld'))).toThrow(problem);
  }
});

test('it is answered once: the same answer again changes nothing, another one is refused with the first', () => {
  expect(answer('upheld', opened('a'))).toMatchObject([
    { type: 'DisputeAnswered', data: { outcome: 'upheld', decided_by: 'key:ops' } },
  ]);
  expect(answer('upheld', opened('a'), answered('upheld'))).toEqual([]);
  for (const first of [answered('rejected'), answered('upheld', 'note')]) {
    const { outcome } = first.data as { outcome: Outcome };
    expect(() => answer('upheld', opened('a'), first)).toThrow(code('dispute_answered', FIRST(outcome)));
  }
  expect(types(answer('upheld', opened('a'), answered('rejected'), opened('b')))).toEqual(['DisputeAnswered']);
});

test('the dispute of an action lapses once, from its time on, unless it was answered', () => {
  const at = Date.parse(RECORDED);
  const lapse = (...events: Given[]) => types(decideLapse(given(...events)!, at));
  expect(lapse(opened('a'))).toEqual(['DisputeLapsed']);
  expect(decideLapse(given(opened('a'))!, at - 1)).toEqual([]);
  for (const after of [LAPSED, answered('rejected'), answered('upheld')]) expect(lapse(opened('a'), after)).toEqual([]);
  expect(lapse(opened('a'), LAPSED, answered('rejected'), opened('b'))).toEqual(['DisputeLapsed']);
});

test('the dispute of a verification or a BAD status never lapses', () => {
  for (const about of ['verification', 'bad_status']) {
    const { data, ...event } = opened('a');
    expect(decideLapse(given({ ...event, data: { ...data, about, action_id: null } })!, Infinity)).toEqual([]);
  }
});

test('after it has lapsed it is answered once, and not opened again before that', () => {
  expect(() => open('b', opened('a'), LAPSED)).toThrow(code('statement_withdrawn'));
  for (const outcome of ['upheld', 'rejected'] as const) {
    expect(types(answer(outcome, opened('a'), LAPSED))).toEqual(['DisputeAnswered']);
    expect(answer(outcome, opened('a'), LAPSED, answered(outcome))).toEqual([]);
  }
  const late = [opened('a'), LAPSED, answered('rejected')];
  expect(() => answer('upheld', ...late)).toThrow(code('dispute_answered'));
  expect(() => open('a', ...late)).toThrow(code('dispute_answered'));
  expect(types(open('b', ...late))).toEqual(['DisputeOpened']);
  expect(given(...late, opened('b'), LAPSED)).toMatchObject({ state: 'lapsed', lapsed: { position: 5 } });
});

describe('what follows for the action', () => {
  type By = 'job:dispute_withdrawal' | 'key:lendco';
  const [JOB, LENDCO]: By[] = ['job:dispute_withdrawal', 'key:lendco'];
  /** Its changes are withdrawals and reinstatements in turn, at these positions. */
  const due = (events: Given[], changes: [position: number, by: By][] = [], revoked = false) => {
    const of = (i: number) => (i % 2 === 0 ? 'ActionWithdrawn' : 'ActionReinstated');
    const action = { revoked, changes: changes.map(([position, by], i) => ({ type: of(i), position, by })) };
    return dueState(given(...events)!, events.length, action as unknown as RecordedAction);
  };
  const lapse = [opened('a'), LAPSED];
  const rejected = [...lapse, answered('rejected')];

  test.each([
    ['nothing while it is open', [opened('a')], [], null],
    ['nothing if it is rejected', [opened('a'), answered('rejected')], [], null],
    [
      'nothing for what somebody withdrew, if it is rejected',
      [opened('a'), answered('rejected')],
      [[1.5, LENDCO]],
      null,
    ],
    ['a withdrawal if it is upheld', [opened('a'), answered('upheld')], [], 'withdrawn'],
    ['a withdrawal if it lapses', lapse, [], 'withdrawn'],
    ['nothing if it is withdrawn already', lapse, [[2.5, JOB]], null],
    [
      'nothing if it was reinstated since',
      lapse,
      [
        [2.5, JOB],
        [2.6, LENDCO],
      ],
      null,
    ],
    ['a reinstatement if it is rejected after a lapse', rejected, [[2.5, JOB]], 'counted'],
    ['the same if the withdrawal came later', rejected, [[3.5, JOB]], 'counted'],
    ['the same if it was disputed again meanwhile', [...rejected, opened('b')], [[4.5, JOB]], 'counted'],
    ['nothing if a rejection comes before the withdrawal', rejected, [], null],
    [
      'nothing if it was reinstated already',
      rejected,
      [
        [2.5, JOB],
        [2.6, JOB],
      ],
      null,
    ],
    ['nothing if somebody else withdrew it', rejected, [[2.5, LENDCO]], null],
    [
      'nothing if somebody withdrew it again',
      rejected,
      [
        [2.5, JOB],
        [2.6, LENDCO],
        [2.7, JOB],
      ],
      null,
    ],
    ['nothing for a withdrawal of before the lapse', rejected, [[1.5, JOB]], null],
  ] as [string, Given[], [number, By][], string | null][])('%s', (_what, events, changes, state) => {
    expect(due(events, changes)).toBe(state);
  });

  test('nothing that a revoked record forbids', () => {
    expect(due(rejected, [[2.5, JOB!]], true)).toBeNull();
  });
});

test('another event of the statement is another dispute', () => {
  const ids = [ID, disputeIdOf('tris:alice', 'e1'), disputeIdOf('tris:bob', 'e0')];
  expect(new Set(ids).size).toBe(3);
});

test('whatever is asked in whatever order, each text is answered once at most, and nothing follows an upheld answer', () => {
  const text = fc.constantFrom('a', 'b', null);
  const asked = fc.oneof(
    text.map((open) => ({ open })),
    fc.constantFrom('upheld' as const, 'rejected' as const, 'lapse' as const),
  );
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 30 }), (commands) => {
      const events: Given[] = [];
      for (const command of commands) {
        const before = given(...events);
        if (typeof command === 'string' && !before) continue;
        try {
          const facts =
            command === 'lapse'
              ? decideLapse(before!, Infinity)
              : typeof command === 'string'
                ? answer(command, ...events)
                : open(command.open, ...events);
          events.push(...facts.map(({ type, data }) => ({ type, data, stream })));
        } catch (error) {
          expect(error).toBeInstanceOf(Problem);
        }
      }
      const dispute = given(...events);
      if (!dispute) return;
      const outcomes = dispute.answers.map(({ outcome }) => outcome);
      const texts = dispute.answers.map(({ statement_hash }) => statement_hash);
      expect(new Set(texts).size).toBe(texts.length);
      expect(outcomes.slice(0, -1)).not.toContain('upheld');
      expect(dispute.state === 'open' && outcomes.includes('upheld')).toBe(false);
      expect(dispute.state === 'open').toBe(events.at(-1)!.type === 'DisputeOpened');
      expect(dispute.state === 'lapsed').toBe(events.at(-1)!.type === 'DisputeLapsed');
    }),
  );
});
