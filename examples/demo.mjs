// `npm run demo`: real trust ratings in a separate store: who comes out on top and at the bottom, and why.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ActionLines } from '../dist/src/cli/action-lines.js';
import { Cli } from '../dist/src/cli/cli.js';
import { EXIT } from '../dist/src/cli/exit.js';
import { withHandlers } from '../dist/src/cli/handlers.js';
import { recordActions } from '../dist/src/cli/import-actions.js';
import { applyAll } from '../dist/src/cli/read-models.js';
import { historyTable, replay } from '../dist/src/cli/replay.js';
import { table } from '../dist/src/cli/table.js';
import { IdentityReader } from '../dist/src/features/disc/identity-reader.js';
import { parseRatings, toAction, toNdjson } from './otc.mjs';

const SHOWN = 5;
/** Events around the turn of a history. */
const BEFORE_TURN = 3;
const AFTER_TURN = 9;
const CSV = new URL('bitcoin-otc-excerpt.csv', import.meta.url);

const folder = mkdtempSync(join(tmpdir(), 'credence-demo-'));
const { stdin, stdout, stderr } = process;
const cli = new Cli({ env: { CREDENCE_DATA: join(folder, 'data') }, stdin, stdout, stderr });
cli.program.command('demo').action(withHandlers(cli, 'create', [], demo));
await cli.run([process.execPath, 'credence', 'demo']);
rmSync(folder, { recursive: true, force: true });
process.exitCode = cli.exitCode;

async function demo({ stores, config, get, print }) {
  const file = join(folder, 'actions.ndjson');
  const ratings = parseRatings(readFileSync(CSV, 'utf8'));
  writeFileSync(file, toNdjson(ratings));
  const actions = new ActionLines(file);
  const { lines } = await actions.check();
  const { recorded } = await recordActions(stores, actions.read(), lines);
  await applyAll(stores, config);

  // As of the last rating: what was fresh then has decayed since.
  const as_of = toAction(ratings.at(-1)).occurred_at;
  const reader = get(IdentityReader);
  const members = await everybody(stores, reader, as_of);
  print(
    `${recorded} ratings among ${members.length} members of Bitcoin OTC, 2010 to 2016, each an action of the rated.\n`,
  );
  print(`Top ${SHOWN}`);
  print(table(members.slice(0, SHOWN).map(row)));
  print(`\nBottom ${SHOWN}`);
  print(table(members.slice(-SHOWN).map(row)));

  const fallen = members.filter(({ score }) => score.score_rating === 'BAD').sort(byEarned)[0];
  const { entries, score } = await replay(reader, fallen.score.tris_id, { as_of });
  const peak = entries.findLastIndex(({ total_tct }) => total_tct === Math.max(...entries.map((e) => e.total_tct)));
  const turn = entries.slice(Math.max(0, peak - BEFORE_TURN), peak + AFTER_TURN);
  print(
    `\nHow ${score.tris_id}, who had earned ${score.earned_tct} TCT, fell: ${turn.length} of ${entries.length} events`,
  );
  print(historyTable(turn));
  print(`\nTo see the same in the console, record the ratings in ./data, and run npm start:
  node examples/otc-to-ndjson.mjs examples/bitcoin-otc-excerpt.csv | npm run --silent credence -- import -
examples/README.md says how the data is mapped.`);
  return EXIT.ok;
}

/** Every identity with its score as of a time, best first. */
async function everybody(stores, reader, as_of) {
  const found = [];
  const { views } = await stores.readModels.manifest();
  for (let cursor = null; ;) {
    const page = await stores.readModels.scan(views.identities, 'identities', cursor, 1000);
    for (const { row } of page.rows) found.push(await replay(reader, row.key, { as_of }, 1));
    if (page.cursor === null) break;
    cursor = page.cursor;
  }
  const net = ({ score }) => score.earned_tct - score.forfeited_tct;
  return found.sort((a, b) => b.score.score - a.score.score || net(b) - net(a));
}

function row({ score, events }) {
  return {
    identity: score.tris_id,
    score: score.score.toFixed(1),
    rating: score.score_rating,
    ratings: events,
    'TCT earned': score.earned_tct,
    forfeited: score.forfeited_tct,
    reliability: score.evidence.word === 'none' ? 'no recent evidence' : score.reliability.toFixed(4),
  };
}

function byEarned(a, b) {
  return b.score.earned_tct - a.score.earned_tct;
}
