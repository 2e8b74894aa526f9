import type { Clock } from '../../kernel/clock.js';
import { canonicalJson } from '../../kernel/hash.js';
import type { Json } from '../../kernel/json.js';
import { type KeyValue, storedKey } from '../ports/key-value.js';
import { Sweeper } from '../sweeper.js';
import type { PostgresConnection } from './connection.js';
import { NOW } from './statements.js';

const SWEEP_MS = 60_000;
/** Entries that one statement of a sweep removes. */
const SWEEP_SLICE = 1_000;

/** Times are the server's, so that machines need not agree. Parameters: log, key; then of most: value, time to live. */
const GET = {
  name: 'entry',
  text: `SELECT value FROM credence_store.entries WHERE log = $1 AND key = $2 AND expires_at > ${NOW}`,
};
const PUT = `
  INSERT INTO credence_store.entries AS e (log, key, value, expires_at) VALUES ($1, $2, $3, ${NOW} + $4)
  ON CONFLICT (log, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`;
const PUT_IF_ABSENT = `${PUT} WHERE e.expires_at <= ${NOW} RETURNING true`;
/** $5: the expected value. */
const REPLACE = `
  UPDATE credence_store.entries SET value = $3, expires_at = ${NOW} + $4
  WHERE log = $1 AND key = $2 AND value = $5 AND expires_at > ${NOW} RETURNING true`;
const TAKE = `
  DELETE FROM credence_store.entries WHERE log = $1 AND key = $2 AND expires_at > ${NOW} RETURNING value`;
const INCREMENT = `
  INSERT INTO credence_store.entries AS e (log, key, value, expires_at) VALUES ($1, $2, $3::bigint::text, ${NOW} + $4)
  ON CONFLICT (log, key) DO UPDATE SET
    value = CASE WHEN e.expires_at > ${NOW} THEN (e.value::bigint + $3::bigint)::text ELSE excluded.value END,
    expires_at = CASE WHEN e.expires_at > ${NOW} THEN e.expires_at ELSE excluded.expires_at END
  RETURNING value, expires_at - ${NOW}`;
/** Parameter: how many. */
const SWEEP = `
  DELETE FROM credence_store.entries WHERE (log, key) IN (
    SELECT log, key FROM credence_store.entries WHERE expires_at <= ${NOW} ORDER BY expires_at LIMIT $1
  ) AND expires_at <= ${NOW} RETURNING true`;

/** State with a time to live that must outlast a cache. */
export class PostgresKeyValue implements KeyValue {
  private readonly sweeper: Sweeper;

  /**
   * @param connection that of the read models, which close it: so there is one answer to whether PostgreSQL is available
   * @param log entries of other logs are not seen
   * @param clock of this process: for times that are told to clients
   */
  constructor(
    private readonly connection: PostgresConnection,
    private readonly log: string,
    private readonly clock: Clock,
  ) {
    this.sweeper = new Sweeper(() => this.sweep(), SWEEP_MS);
  }

  async get(key: string): Promise<Json | undefined> {
    const [row] = await this.connection.rows<[string]>({ ...GET, values: this.of(key) });
    return row && (JSON.parse(row[0]) as Json);
  }

  async put(key: string, value: Json, ttlMs: number): Promise<void> {
    await this.changed(PUT, key, [canonicalJson(value), Math.ceil(ttlMs)]);
  }

  async putIfAbsent(key: string, value: Json, ttlMs: number): Promise<boolean> {
    return this.changed(PUT_IF_ABSENT, key, [canonicalJson(value), Math.ceil(ttlMs)]);
  }

  async replace(key: string, expected: Json, next: Json, ttlMs: number): Promise<boolean> {
    return this.changed(REPLACE, key, [canonicalJson(next), Math.ceil(ttlMs), canonicalJson(expected)]);
  }

  async take(key: string): Promise<Json | undefined> {
    const [row] = await this.connection.rows<[string]>({ text: TAKE, values: this.of(key) });
    return row && (JSON.parse(row[0]) as Json);
  }

  async increment(key: string, ttlMs: number, by = 1): Promise<{ count: number; resets_at: number }> {
    const values = [...this.of(key), by, Math.ceil(ttlMs)];
    const [row] = await this.connection.rows<[string, string]>({ text: INCREMENT, values });
    return { count: Number(row![0]), resets_at: this.clock() + Number(row![1]) };
  }

  /** Removes what has expired. */
  async sweep(): Promise<void> {
    for (;;) {
      const removed = await this.connection.rows({ text: SWEEP, values: [SWEEP_SLICE] });
      if (removed.length < SWEEP_SLICE) return;
    }
  }

  async close(): Promise<void> {
    void this.sweeper.stop();
  }

  /** @returns whether the statement changed the entry */
  private async changed(text: string, key: string, values: (string | number)[]): Promise<boolean> {
    return (await this.connection.rows({ text, values: [...this.of(key), ...values] })).length > 0;
  }

  private of(key: string): string[] {
    return [this.log, storedKey(key)];
  }
}
