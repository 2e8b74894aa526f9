/**
 * Access decisions per second by our rules, by json-rules-engine and by Cedar, on equivalent rules
 * of 20 conditions and the same facts, in one run: interleaved rounds, the median of each engine as a JSON line. All
 * engines must agree on every identity first. `npm run bench:rules [seconds a round]`, after a build.
 */
import { statefulIsAuthorized, preparsePolicySet } from '@cedar-policy/cedar-wasm/nodejs';
import { Engine } from 'json-rules-engine';
import { TRUE, evaluate } from '../dist/src/features/access/evaluate.js';
import { factsFrom } from '../dist/src/features/access/facts.js';
import { howToPass } from '../dist/src/features/access/how-to-pass.js';
import { parseRules } from '../dist/src/features/access/rules.js';

const SECONDS = Number(process.argv[2] ?? 0.5);
const ROUNDS = 5;
const CATEGORIES = ['financial', 'creative', 'educational', 'behavioral', 'social', 'security', 'compliance'];

/** 20 conditions: any of four times all of five. */
const BLOCKS = [0, 1, 2, 3].map((i) => ({
  disc_min: 60 - 12 * i,
  tct_min: 8_000 - 1_900 * i,
  reliability_min: 0.9 - 0.1 * i,
  [CATEGORIES[i]]: 0.6 - 0.1 * i,
  [CATEGORIES[i + 3]]: 0.4 - 0.05 * i,
}));
const METRIC = new Set(CATEGORIES);

const rules = {
  any: BLOCKS.map((block) => {
    const entries = Object.entries(block);
    const metrics = Object.fromEntries(entries.filter(([name]) => METRIC.has(name)));
    return { ...Object.fromEntries(entries.filter(([name]) => !METRIC.has(name))), metrics };
  }),
};
const { rule } = parseRules(rules);

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const measured = Array.from({ length: 1_000 }, () => {
  const net_tct = Math.round(40_000 * random() ** 2);
  const health = {};
  for (const category of CATEGORIES) health[category] = Math.round(10_000 * random()) / 10_000;
  return { net_tct, reliability: Math.round(1e4 * random()) / 1e4, health };
});
const population = measured.map(({ health, ...facts }) =>
  factsFrom({
    ...facts,
    incomplete: false,
    actions: 9,
    bad_level: null,
    health: (category) => health[category] ?? null,
    verified: new Set(),
  }),
);
/** The same as plain numbers; Cedar knows no fractions but decimals, so everything is in ten-thousandths there. */
const flat = population.map(({ score, total_tct, reliability }, i) => {
  return { disc_min: score, tct_min: total_tct, reliability_min: reliability, ...measured[i].health };
});
const scaled = flat.map((facts) => {
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, Math.round(value * 10_000)]));
});

const engine = new Engine([
  {
    conditions: {
      any: BLOCKS.map((block) => ({
        all: Object.entries(block).map(([fact, value]) => ({ fact, operator: 'greaterThanInclusive', value })),
      })),
    },
    event: { type: 'granted' },
  },
]);

const cedarCondition = BLOCKS.map((block) => {
  const all = Object.entries(block).map(([name, value]) => `context.${name} >= ${Math.round(value * 10_000)}`);
  return `(${all.join(' && ')})`;
}).join(' || ');
const policies = { staticPolicies: `permit (principal, action, resource) when { ${cedarCondition} };` };
const prepared = preparsePolicySet('bench', policies);
if (prepared.type !== 'success') throw new Error(JSON.stringify(prepared));
const entity = (type, id) => ({ type, id });

const ENGINES = {
  credence: (i) => evaluate(rule, population[i]) === TRUE,
  'json-rules-engine': async (i) => (await engine.run(flat[i])).events.length > 0,
  'cedar-wasm': (i) => {
    const answer = statefulIsAuthorized({
      principal: entity('Identity', 'x'),
      action: entity('Action', 'enter'),
      resource: entity('Place', 'y'),
      context: scaled[i],
      entities: [],
      preparsedPolicySetId: 'bench',
    });
    if (answer.type !== 'success') throw new Error(JSON.stringify(answer));
    return answer.response.decision === 'allow';
  },
};

const decisions = {};
for (const [name, decide] of Object.entries(ENGINES)) {
  decisions[name] = [];
  for (let i = 0; i < population.length; i++) decisions[name].push(await decide(i));
  const wrong = decisions[name].findIndex((granted, i) => granted !== decisions.credence[i]);
  if (wrong >= 0) throw new Error(`${name} decides otherwise on ${JSON.stringify(flat[wrong])}`);
}
const granted = decisions.credence.filter(Boolean).length;

async function round(decide) {
  const isAsync = decide(0) instanceof Promise;
  const started = performance.now();
  let done = 0;
  for (; performance.now() - started < SECONDS * 1000;) {
    for (let i = 0; i < 200; i++, done++) {
      if (isAsync) await decide(done % population.length);
      else decide(done % population.length);
    }
  }
  return (done / (performance.now() - started)) * 1000;
}

const perSecond = Object.fromEntries(Object.keys(ENGINES).map((name) => [name, []]));
for (let i = 0; i <= ROUNDS; i++) {
  for (const [name, decide] of Object.entries(ENGINES)) {
    const rate = await round(decide);
    if (i > 0) perSecond[name].push(rate); // the first round warms up
  }
}
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
for (const [name, rates] of Object.entries(perSecond)) {
  const per_second = Math.round(median(rates));
  const of_credence = Number((median(rates) / median(perSecond.credence)).toFixed(4));
  console.log(JSON.stringify({ bench: 'rules', engine: name, conditions: 20, granted, per_second, of_credence }));
}

const denied = population.filter((_facts, i) => !decisions.credence[i]);
const times = denied.map((facts) => {
  const started = performance.now();
  howToPass(rule, facts);
  return performance.now() - started;
});
const microseconds = (value) => Math.round(value * 1000);
console.log(
  JSON.stringify({
    bench: 'how to pass',
    conditions: 20,
    denied: denied.length,
    median_us: microseconds(median(times)),
    slowest_us: microseconds(Math.max(...times)),
  }),
);
