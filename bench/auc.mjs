// How well a score predicts: replays ratings, and prints how well a member's score and reliability just before each
// rating predict whether it is good or bad, for every version of the scoring model; then the same under
// attacks. Only ratings of members who have been rated before count. Scores are the product's own, from dist.
//
//   npm run bench:auc -- <csv>             ratings as source,target,rating,time, a rating below 0 being bad
//   npm run bench:auc -- --data <folder>   the actions in the log of a store
import { readFileSync } from 'node:fs';
import { decodeEvent } from '../dist/projections/events.js';
import { addAction, dayOf } from '../dist/src/scoring/evidence.js';
import { MODEL_LENS } from '../dist/src/scoring/lens.js';
import { isFlags } from '../dist/src/scoring/names.js';
import { CRITICALITIES } from '../dist/src/scoring/model.js';
import { MODELS } from '../dist/src/scoring/models/all.js';
import { disc2 } from '../dist/src/scoring/models/disc-2.js';
import { EVIDENCE_WORDS } from '../dist/src/scoring/models/scoring-model.js';
import { standingOf } from '../dist/src/scoring/score.js';
import { closeStores, openStores, storesExist } from '../dist/src/stores/open.js';
import { parseAnyRatings, toAction } from '../examples/otc.mjs';
import { commandLine, wrongUsage } from './command-line.mjs';

const DAY_MS = 86_400_000;
const CRITICAL = CRITICALITIES.indexOf('Critical');
const PRAISE = 'social_trade_rating';
const FLAG = 'compliance_trade_flags';
/** Fake actions in an attack on one rating. */
const FAKES = 10;

const USAGE = 'usage: npm run bench:auc -- <csv> | --data <folder>';
const { values, positionals } = commandLine(USAGE, { data: { type: 'string' } }, true);
const [csv] = positionals;
if ((csv === undefined) === (values.data === undefined)) wrongUsage(USAGE);
if (values.data !== undefined && !storesExist(values.data)) {
  process.stderr.write(`There is no store in ${values.data}.\n`);
  process.exit(1);
}

const actions = csv === undefined ? await actionsOf(values.data) : actionsIn(readFileSync(csv, 'utf8'));
const cases = replay(actions);
const bad = cases.filter(({ good }) => !good).length;
const members = new Set(actions.map(({ member }) => member)).size;
print(`${actions.length} ratings of ${members} members; ${cases.length} of members rated before, ${bad} of them bad\n`);

table(
  ['', ...MODELS.flatMap(({ id }) => [`${id} score`, `${id} reliability`])],
  [
    ['AUC', ...each((value) => auc(cases, value))],
    ['AUC within the same 30 days', ...each((value) => aucWithin(cases, value))],
    ...EVIDENCE_WORDS.map((word) => {
      const some = cases.filter((each) => each.evidence.word === word);
      return [`AUC where evidence is ${word} (${some.length})`, ...each((value) => auc(some, value))];
    }),
    [
      'AUC where evidence is 1 or more',
      ...each((value) =>
        auc(
          cases.filter(({ evidence }) => evidence.amount >= 1),
          value,
        ),
      ),
    ],
    ['average precision for bad ratings', ...each((value) => averagePrecision(cases, value))],
    ['log-loss', ...each((value, isProbability) => (isProbability ? logLoss(cases, value) : null))],
  ],
);

print('Calibration of reliability: the share of good ratings where reliability was in a range\n');
table(
  ['', ...MODELS.flatMap(({ id }) => [`${id} ratings`, 'mean', 'good'])],
  Array.from({ length: 10 }, (_, i) => [
    `${(i / 10).toFixed(1)} to ${((i + 1) / 10).toFixed(1)}`,
    ...MODELS.flatMap((_model, m) =>
      calibration(
        cases.filter(({ reliability }) => Math.min(9, Math.floor(reliability[m] * 10)) === i),
        m,
      ),
    ),
  ]),
);

print('AUC under attacks, each carried out in the whole log\n');
const attacks = [
  ['none', cases],
  [
    `${FAKES} praises at once after each flag`,
    replay(actions, (action) => (isFlags(action.metric) ? fakes(PRAISE, action, 0) : [])),
  ],
  [
    `a praise a day for ${FAKES} days after each flag`,
    replay(actions, (action) => (isFlags(action.metric) ? fakes(PRAISE, action, DAY_MS) : [])),
  ],
  [
    `${FAKES} flags at once after each tenth praise of a member`,
    replay(actions, (action, nth) => (!isFlags(action.metric) && nth % 10 === 0 ? fakes(FLAG, action, 0) : [])),
  ],
];
table(
  ['', ...MODELS.flatMap(({ id }) => [`${id} score`, `${id} reliability`])],
  attacks.map(([name, attacked]) => [name, ...each((value) => auc(attacked, value))]),
);

/** Calls `measure` for the score and the reliability of each model. */
function each(measure) {
  return MODELS.flatMap((_model, m) => [
    measure(({ score }) => score[m], false),
    measure(({ reliability }) => reliability[m], true),
  ]);
}

/** The actions of a CSV of ratings, in the order of time. */
function actionsIn(text) {
  const ratings = parseAnyRatings(text).sort((a, b) => a.seconds - b.seconds);
  return ratings.map((rating) => {
    const { tris_id, action_type, category, criticality, occurred_at } = toAction(rating);
    const at = Date.parse(occurred_at);
    return {
      member: tris_id,
      metric: `${category}_${action_type}`,
      criticality: CRITICALITIES.indexOf(criticality),
      at,
    };
  });
}

/** The actions in the log of a store, in the order of the log. */
async function actionsOf(folder) {
  const stores = await openStores(folder, Date.now);
  try {
    const all = [];
    for await (const slice of stores.eventStore.readAll(0)) {
      for (const recorded of slice) {
        const { type, data, occurred_at } = decodeEvent(recorded);
        if (type !== 'ActionRelayed') continue;
        const { tris_id, metric, criticality } = data;
        all.push({ member: tris_id, metric, criticality: CRITICALITIES.indexOf(criticality), at: occurred_at });
      }
    }
    return all;
  } finally {
    await closeStores(stores);
  }
}

/** Fake actions about the member of an action: all at once, or one every so often. */
function fakes(metric, { member, at }, everyMs) {
  return Array.from({ length: FAKES }, (_, i) => ({ member, metric, criticality: CRITICAL, at: at + i * everyMs }));
}

/**
 * Notes score and reliability before each action of a member with earlier actions, and whether the action was good.
 * @param attack the fake actions that follow an action, the member's n-th; they are not cases themselves
 */
function replay(actions, attack = () => []) {
  const states = new Map();
  const cases = [];
  for (const action of actions) {
    const { member, metric, criticality, at } = action;
    let state = states.get(member);
    if (!state) states.set(member, (state = { evidence: {}, actions: 0, pending: [] }));
    const { evidence } = state;
    state.pending = state.pending.filter((fake) => {
      if (fake.at > at) return true;
      addAction(evidence, fake.metric, fake.criticality, fake.at);
      return false;
    });
    if (state.actions > 0) {
      cases.push({
        good: !isFlags(metric),
        at,
        score: MODELS.map((model) => standingOf(model.ledger(evidence, MODEL_LENS), null).score),
        reliability: MODELS.map((model) => model.assess(evidence, MODEL_LENS, at).reliability),
        evidence: disc2.assess(evidence, MODEL_LENS, at).evidence,
      });
    }
    addAction(evidence, metric, criticality, at);
    state.actions++;
    state.pending.push(...attack(action, state.actions));
  }
  return cases;
}

/** Number of good and bad cases by value, ascending. */
function byValue(cases, valueOf) {
  const counts = new Map();
  for (const one of cases) {
    const value = valueOf(one);
    const count = counts.get(value) ?? { value, good: 0, bad: 0 };
    count[one.good ? 'good' : 'bad']++;
    counts.set(value, count);
  }
  return [...counts.values()].sort((a, b) => a.value - b.value);
}

/** Of all pairs of a good and a bad case: how many there are, and in how many the good one has the higher value, a tie counting half. */
function pairs(cases, valueOf) {
  let [wins, good, below] = [0, 0, 0];
  for (const count of byValue(cases, valueOf)) {
    wins += count.good * (below + count.bad / 2);
    below += count.bad;
    good += count.good;
  }
  return { wins, all: good * below };
}

/** The probability that a good case has the higher value than a bad one (Mann-Whitney U); null without either. */
function auc(cases, valueOf) {
  const { wins, all } = pairs(cases, valueOf);
  return all === 0 ? null : wins / all;
}

/** As `auc`, of pairs within the same 30 days: a value that only follows the times gains nothing. */
function aucWithin(cases, valueOf) {
  const spans = new Map();
  for (const one of cases) {
    const span = Math.floor(dayOf(one.at) / 30);
    spans.set(span, [...(spans.get(span) ?? []), one]);
  }
  let [wins, all] = [0, 0];
  for (const some of spans.values()) {
    const own = pairs(some, valueOf);
    wins += own.wins;
    all += own.all;
  }
  return all === 0 ? null : wins / all;
}

/** Average precision of finding bad cases, the lowest value first; a tie is found at once. */
function averagePrecision(cases, valueOf) {
  let [found, seen, sum] = [0, 0, 0];
  for (const { good, bad } of byValue(cases, valueOf)) {
    found += bad;
    seen += good + bad;
    sum += (bad * found) / seen;
  }
  return found === 0 ? null : sum / found;
}

/** Mean of −ln of the probability that was given to what happened. Values are clamped away from 0 and 1, which rounding to four decimals can give. */
function logLoss(cases, valueOf) {
  let sum = 0;
  for (const one of cases) {
    const value = Math.min(0.99995, Math.max(0.00005, valueOf(one)));
    sum -= Math.log(one.good ? value : 1 - value);
  }
  return sum / cases.length;
}

function calibration(cases, m) {
  const mean = (of) => (cases.length === 0 ? null : cases.reduce((sum, one) => sum + of(one), 0) / cases.length);
  return [String(cases.length), mean(({ reliability }) => reliability[m]), mean(({ good }) => Number(good))];
}

/** Prints rows; numbers with four decimals. */
function table(head, rows) {
  const texts = [
    head,
    ...rows.map((row) => row.map((cell) => (typeof cell === 'string' ? cell : (cell?.toFixed(4) ?? '-')))),
  ];
  const widths = head.map((_, i) => Math.max(...texts.map((row) => row[i].length)));
  for (const row of texts)
    print(
      row
        .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i])))
        .join('  ')
        .trimEnd(),
    );
  print('');
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
