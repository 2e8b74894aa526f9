import { AccessPolicyHandlersModule } from '../features/access/ap.module.js';
import type { DecisionDto, DecisionsDto } from '../features/access/decisions.dto.js';
import { ListDecisions } from '../features/access/decisions.handlers.js';
import { endOfHour } from '../features/disc/coordinates.js';
import { IdentityReader, type IdentitySnapshot } from '../features/disc/identity-reader.js';
import { score } from '../features/disc/score.js';
import { MODEL_VP } from '../features/lenses/lenses.js';
import { openPopulation } from '../features/disc/population.js';
import { internalActor } from '../commands/context.js';
import { Problem, rebuilding } from '../kernel/problems.js';
import { Views } from '../read-side/views.js';
import { STRIDE } from '../scoring/evidence.js';
import { MODEL_LENS } from '../scoring/lens.js';
import { modelOrFirst } from '../scoring/models/all.js';
import { UsageError } from './exit.js';
import type { HandlersContext } from './handlers.js';
import { count, duration } from './progress.js';
import { applyAll } from './read-models.js';

/** `export --csv`: tables for spreadsheets and other databases, written page by page. */

export const CSV_FEATURES = [AccessPolicyHandlersModule];
/** Rows read at a time. */
const PAGE = 100;
const DAY_MS = 86_400_000;

type Row = Record<string, unknown>;
type Pages = (context: HandlersContext) => AsyncIterable<{ rows: Row[]; total: number }>;

const TABLES: Record<string, { columns: string; pages: Pages }> = {
  identities: {
    columns:
      'tris_id score score_rating total_tct earned_tct forfeited_tct reliability bad_status_level bad_status_reason ' +
      'actions first_action_day last_action_day incomplete as_of',
    pages: identities,
  },
  decisions: {
    columns:
      'jti checked_at policy_id subject_tris granted score reasons audience checked_by expires_at revoked ' +
      'recorded_position',
    pages: decisions,
  },
};

/** @throws UsageError if there is no such table */
export function checkedTable(name: string): void {
  if (Object.hasOwn(TABLES, name)) return;
  throw new UsageError(`--csv writes ${Object.keys(TABLES).join(' or ')}; there is no "${name}".`);
}

export async function exportCsv(context: HandlersContext, name: string): Promise<void> {
  const { stores, config, progress, note, write } = context;
  const { columns, pages } = TABLES[name]!;
  const names = columns.split(' ');
  const signal = context.interruption();
  const started = performance.now();
  await progress('Applying', 'events', (update) => applyAll(stores, config, update));
  let written = 0;
  await progress('Writing', name, async (update) => {
    await write(csvLine(names));
    for await (const { rows, total } of pages(context)) {
      signal.throwIfAborted();
      await write(rows.map((row) => csvLine(names.map((name) => row[name] as Cell))).join(''));
      written += rows.length;
      update(written, total);
    }
  });
  note(`${count(written)} ${name} in ${duration((performance.now() - started) / 1000)}`);
}

/** Every identity known now, as `GET /v1/disc/score` answers it, by the platform's lens and model at the start. */
async function* identities({ get, stores: { readModels } }: HandlersContext): ReturnType<Pages> {
  const reader = get(IdentityReader);
  const manifest = await get(Views).manifest();
  const { generation, total } = await openPopulation(readModels, manifest);
  const { id: model } = modelOrFirst(manifest.model_hash);
  const coordinates = { vp: manifest.lens.policy_id ?? MODEL_VP, model, now: endOfHour(Date.now()) };
  let cursor: string | null = null;
  do {
    const page = await readModels.scan(generation, 'identities', cursor, PAGE);
    const ids = page.rows.map(({ row }) => row.key);
    const snapshots = ids.length > 0 ? await reader.snapshots(ids, coordinates) : [];
    const rows: Row[] = [];
    for (const snapshot of snapshots) {
      // Not known yet: all of its events occur later.
      if (snapshot instanceof Problem) continue;
      rows.push(await identityRow(reader.logId, snapshot));
    }
    yield { rows, total };
    ({ cursor } = page);
  } while (cursor !== null);
  // A dropped generation looks like an empty one.
  if (!(await readModels.read(generation, []))) throw rebuilding('the identities are being rebuilt');
}

async function identityRow(logId: string, snapshot: IdentitySnapshot): Promise<Row> {
  const answer = score(snapshot, logId);
  // That of the state may have only the actions that its lens counts.
  const evidence = Object.values(await snapshot.reader.evidence([MODEL_LENS])).filter(({ days }) => days.length > 0);
  return {
    incomplete: false,
    ...answer,
    bad_status_level: answer.bad_status?.level,
    bad_status_reason: answer.bad_status?.reason_code,
    actions: snapshot.state.actions,
    first_action_day: dateOf(Math.min(...evidence.map(({ days }) => days[0]!))),
    last_action_day: dateOf(Math.max(...evidence.map(({ days }) => days.at(-STRIDE)!))),
  };
}

/** A UTC day; null if it is infinite, since there is no action. */
function dateOf(day: number): string | null {
  return Number.isFinite(day) ? new Date(day * DAY_MS).toISOString().replace(/T.*/, '') : null;
}

/** The recorded access decisions, the latest first. */
async function* decisions({ get, queries, stores: { readModels } }: HandlersContext): ReturnType<Pages> {
  const { decisions: generation } = (await get(Views).manifest()).views;
  const total = generation === undefined ? 0 : await readModels.count(generation, 'decisions');
  let cursor: string | undefined;
  do {
    const page: DecisionsDto = await queries.execute(new ListDecisions({ limit: PAGE, cursor, actor: AUDITOR }));
    yield { rows: page.decisions.map(decisionRow), total };
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

const AUDITOR = internalActor('cli', ['audit:read', 'ops']);

function decisionRow(decision: DecisionDto): Row {
  const rules = (decision.reasons as { rule: string }[]).map(({ rule }) => rule);
  return { ...decision, reasons: [...new Set(rules)].join(' ') };
}

/** null, undefined: empty. */
type Cell = string | number | boolean | null | undefined;

/** A line of a CSV file (RFC 4180). Cells are exact: one that a spreadsheet takes for a formula is not changed. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`;
}

function cellOf(value: Cell): string {
  const text = String(value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
