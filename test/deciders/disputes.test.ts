import fc from 'fast-check';
import {
  type Disputed,
  type Outcome,
  decideAnswer,
  decideOpen,
  disputeIdOf,
  disputeOf,
  disputeStream,
} from '../../src/features/disputes/domain/dispute.js';
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

test('another event of the statement is another dispute', () => {
  const ids = [ID, disputeIdOf('tris:alice', 'e1'), disputeIdOf('tris:bob', 'e0')];
  expect(new Set(ids).size).toBe(3);
});

test('whatever is asked in whatever order, each text is answered once at most, and nothing follows an upheld answer', () => {
  const text = fc.constantFrom('a', 'b', null);
  const asked = fc.oneof(
    text.map((open) => ({ open })),
    fc.constantFrom('upheld' as const, 'rejected' as const),
  );
  fc.assert(
    fc.property(fc.array(asked, { maxLength: 30 }), (commands) => {
      const events: Given[] = [];
      for (const command of commands) {
        const before = given(...events);
        if (typeof command === 'string' && !before) continue;
        try {
          const facts = typeof command === 'string' ? answer(command, ...events) : open(command.open, ...events);
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
      expect(dispute.isOpen && outcomes.includes('upheld')).toBe(false);
      expect(dispute.isOpen).toBe(events.at(-1)!.type === 'DisputeOpened');
    }),
  );
});
