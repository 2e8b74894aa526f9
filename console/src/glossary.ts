/**
 * What the words mean, each in a sentence with its scale: `Term` shows it, and docs/glossary.md has the same
 * (test/docs/glossary.test.ts).
 */
export const GLOSSARY = {
  TRIS: 'The id of an identity: a person, a wallet or an organization, such as tris:otc:905; up to 128 characters.',
  'DISC score':
    'How credible an identity is by all of its actions, from 1 to 100: 7 is a beginner, below 7 more was forfeited than earned, and most active identities have 8 to 40.',
  Rating:
    'The band that a score is in: BAD up to 6, Poor below 20, Fair below 40, Good below 62, Very Good below 80, Excellent up to 100.',
  TCT: 'Points of credibility that an action earns, from 10 (Minimal) to 140 (Critical); they do not decay, and 2,250 make a score of 20.',
  Forfeits:
    'TCT that flags take away, at least 0: ten times the TCT of each flag, which is an action whose metric ends in _flags.',
  Reliability:
    'The probability that the next action is a good one, from 0 to 1, by what is recent: half of it fades in 45 days; 0.8333 without any evidence.',
  Evidence:
    'How much of what is recent the reliability rests on, in days that still count: none is 0, thin is below 1, some is below 4, solid is 4 or more.',
  Health: 'How much recent evidence a category has and how few flags, from 0 (nothing recent, or many flags) to 1.',
  VP: 'A validation policy: which metrics count, each with a weight of 0.01 to 0.14; its versions never change.',
  AP: 'An access policy: the conditions on which an action is permitted; a check of it ends with granted or denied.',
  Lens: 'What decides how much each action counts: a validation policy, or the weights of the model itself.',
  Credonation:
    'An endorsement that the service makes from an action, worth the TCT of the action, from 10 to 140; nobody can send one.',
  Position: 'The place of an event in the log, counted from 1; an answer names the last one that it may count.',
} as const;

export type TermName = keyof typeof GLOSSARY;
