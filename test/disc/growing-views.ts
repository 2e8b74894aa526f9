import type { DomainEvent } from '../../projections/events.js';
import { credonations } from '../../projections/credonations.js';
import { type IdentityRow, evolve, identities, newIdentity } from '../../projections/identities.js';
import { subjectOf } from '../../projections/identity-events.js';
import { timeline } from '../../projections/timeline.js';
import { EvidenceReader, countsAsOf } from '../../src/features/disc/evidence-reader.js';
import type { IdentitySnapshot } from '../../src/features/disc/identity-reader.js';
import type { RowQuery } from '../../src/stores/ports/read-models.js';
import { StoredRows } from '../projections/log.js';

export const LOG = 'log';

/** Read models in memory, to which further events are applied after each read. */
export class GrowingViews {
  readonly logId = LOG;
  /** Bytes of all rows that were read. */
  bytesRead = 0;
  private readonly rows = new StoredRows();
  private applied = 0;
  private reads = 0;

  constructor(
    private readonly log: readonly DomainEvent[],
    private readonly perRead: number,
    /** After this many reads only. */
    private readonly after = 0,
  ) {}

  async grow(by: number): Promise<void> {
    let end = Math.min(this.log.length, this.applied + by);
    // An append is applied as a whole: a credonation with its action.
    if (end > this.applied) while (this.log[end]?.type === 'CredonationRecorded') end++;
    await this.rows.apply(this.log.slice(this.applied, end), [identities, timeline, credonations]);
    this.applied = end;
  }

  async read(queries: readonly RowQuery[]) {
    // No generation serves no views.
    if (queries.length === 0) throw new Error('nothing is asked for');
    const results = queries.map((query) => ('get' in query ? this.rows.get(query.get) : this.range(query.range)));
    this.bytesRead += JSON.stringify(results).length;
    const answer = { manifest: { lens: {} }, generation: 'g', position: this.applied, results };
    if (++this.reads > this.after) await this.grow(this.perRead);
    return answer;
  }

  readIfServed = (queries: readonly RowQuery[]) => this.read(queries);

  readSince = (_position: number, queries: readonly RowQuery[]) => this.read(queries) as Promise<never>;

  lookUp<T>(look: () => Promise<T>): Promise<T> {
    return look();
  }

  has = async (position: number) => position <= this.applied;
  requirePosition = async () => undefined;

  private range({ view, key, after, reverse = false, limit }: Extract<RowQuery, { range: unknown }>['range']) {
    const isBeyond = (sort: string) => after === undefined || (reverse ? sort < after : sort > after);
    return this.rows.range({ view, key }, isBeyond, reverse, limit);
  }
}

/** By log: views that have applied all of it. */
const wholes = new WeakMap<readonly DomainEvent[], GrowingViews>();

/** What an identity is at a viewpoint by a fold of its events one by one, however many there are. */
export async function folded(
  log: readonly DomainEvent[],
  { tris_id, as_of, position, isPresent, lens, generation }: Omit<IdentitySnapshot, 'state' | 'trusts' | 'reader'>,
): Promise<IdentitySnapshot> {
  const state = newIdentity();
  for (const event of log) {
    const subject = subjectOf(event);
    if (subject?.tris_id !== tris_id || event.position > position) continue;
    if (countsAsOf(subject.event, { as_of, isPresent })) evolve(state, subject.event);
  }
  const views = wholes.get(log) ?? new GrowingViews(log, 0);
  await views.grow(log.length);
  wholes.set(log, views);
  // As a small one, whose evidence is in its row: the reader has no other rows to read than its events.
  const row: IdentityRow = { ...state, events: 1, recorded: 0, stamped: 0, earned: 0, flagged: 0 };
  const reader = new EvidenceReader(views, tris_id, row, position, as_of, isPresent);
  return { tris_id, as_of, position, isPresent, lens, generation, state, trusts: () => true, reader };
}
