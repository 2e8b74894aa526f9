import type { Statement } from './connection.js';

/** The statements of the read models, by the table of a part where they name one. */

export const tableOf = (part: number): string => `credence_store.rows_${part}`;

/** The server's time, ms since the epoch. */
export const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** The time that decides about leases: the given one, else the server's. */
const nowIn = (parameter: string): string => `coalesce(${parameter}::bigint, ${NOW})`;

/** Whether a lease is held at a time. One that ends later than its length allows is from before the clock was set back. */
const heldAt = (now: string): string =>
  `(holder IS NOT NULL AND held_until > ${now} AND held_until - held_for <= ${now})`;

const MANIFEST_VERSION = "concat_ws(' ', revision, incarnation)";
/** The manifest, and a text that is another one for another manifest. */
export const MANIFEST = {
  name: 'manifest',
  text: `SELECT content::text, ${MANIFEST_VERSION} FROM credence_store.manifest`,
};
export const FIRST_MANIFEST = `
  INSERT INTO credence_store.manifest (revision, incarnation, content) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING true`;
/** Parameters: revision, incarnation or null, content. */
export const NEXT_MANIFEST = `
  UPDATE credence_store.manifest SET revision = $1, incarnation = coalesce($2, incarnation), content = $3
  WHERE revision = $1::bigint - 1 AND coalesce(incarnation, $2, '') = coalesce($2, incarnation, '') RETURNING true`;

/** Parameters: id, views, log. */
export const CREATE = `
  INSERT INTO credence_store.generations (id, views, status, log) VALUES ($1, $2, 'building', $3)
  ON CONFLICT DO NOTHING`;

/** Each as JSON, with its damage. Parameter: the time or null. */
export const GENERATIONS = `
  SELECT json_build_object('id', id, 'views', views, 'status', status,
    'checkpoint', json_build_object('log', log, 'position', position, 'event_id', event_id),
    'lease', CASE WHEN ${heldAt(nowIn('$1'))}
      THEN json_build_object('holder', holder, 'expires_at', held_until) END)::text, damage
  FROM credence_store.generations ORDER BY id`;

/** Parameters: id, status, log or null. */
export const SET_STATUS = `
  UPDATE credence_store.generations SET status = $2
  WHERE id = $1 AND status <> 'dropped' AND (status <> 'damaged' OR $2 = 'dropped') AND log = coalesce($3, log)`;

/** Parameters: id, what was found. */
export const GIVE_UP = `
  UPDATE credence_store.generations SET status = 'damaged', damage = $2
  WHERE id = $1 AND status IN ('building', 'ready')`;

/** Parameters: id. The generation is kept as dropped, so that it never comes back. */
export const DROP = `
  UPDATE credence_store.generations SET status = 'dropped', part = NULL, holder = NULL WHERE id = $1`;

/** Parameters: id, holder, length, time or null, log or null, the incarnation that the holder knows or null. */
export const ACQUIRE_LEASE = {
  name: 'acquire_lease',
  text: `
  UPDATE credence_store.generations SET holder = $2, held_until = now.now + $3::bigint, held_for = $3::bigint
  FROM (SELECT ${nowIn('$4')} AS now) AS now
  WHERE id = $1 AND status <> 'dropped' AND log = coalesce($5, log)
    AND incarnation = coalesce($6::uuid, incarnation)
    AND (holder = $2 OR NOT ${heldAt('now.now')})
  RETURNING incarnation`,
};

/** Parameters: id, holder. */
export const RELEASE_LEASE = `
  UPDATE credence_store.generations SET holder = NULL WHERE id = $1 AND holder = $2`;

/** Whether a table is still this holder's: a server that went back gives its number again. */
const isOwn = (part: string): string =>
  `EXISTS (SELECT FROM credence_store.parts p WHERE p.part = ${part} AND p.generation = $1 AND p.holder = $2)`;

/** Whether a holder may write to a generation to which nothing was applied. Parameters: id, holder, time or null. */
const MAY_WRITE_FIRST = `
  id = $1 AND holder = $2 AND ${heldAt(nowIn('$3'))} AND status IN ('building', 'ready')
    AND position = 0 AND part IS NULL`;

/** Parameters: as above, then the part of the holder or null. */
export const MAY_BUILD = {
  name: 'may_build',
  text: `
  SELECT true FROM credence_store.generations
  WHERE ${MAY_WRITE_FIRST} AND ($4::integer IS NULL OR ${isOwn('$4')})`,
};

/** A table for rows. Parameters: generation, holder. */
export const NEW_PART = 'INSERT INTO credence_store.parts (generation, holder) VALUES ($1, $2) RETURNING part';

/** Pages are filled: most rows are never replaced, and vacuum makes room for those that are. */
export const createTable = (part: number): string => `
  CREATE TABLE ${tableOf(part)} (LIKE credence_store.rows INCLUDING ALL, CHECK (part = ${part}))
  WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1)`;
export const createKey = (part: number): string => `ALTER TABLE ${tableOf(part)} ADD PRIMARY KEY (view, key, sort)`;
export const attach = (part: number): string =>
  `ALTER TABLE credence_store.rows ATTACH PARTITION ${tableOf(part)} FOR VALUES IN (${part})`;

/**
 * Gives a generation its table, if the holder may write and nothing was applied. Parameters: id, holder, time or null,
 * part, log, position, event id.
 */
export const SET_PART = `
  UPDATE credence_store.generations SET part = $4, position = $6, event_id = $7
  WHERE ${MAY_WRITE_FIRST} AND log = $5 AND ${isOwn('$4')}
  RETURNING true`;

/**
 * The tables of no generation, without those of holders that have a lease: whether each is attached, and whether its
 * detaching was interrupted. That one comes first: until it is detached, no other can be. Parameters: time or null,
 * generation and holder of a load that begins, whose earlier tables are of no use either, or nulls.
 */
export const UNUSED_PARTS = `
  SELECT p.part, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
  FROM credence_store.parts p
  LEFT JOIN pg_inherits i ON i.inhrelid = to_regclass('credence_store.rows_' || p.part)
    AND i.inhparent = 'credence_store.rows'::regclass
  WHERE NOT EXISTS (
    SELECT FROM credence_store.generations g
    WHERE g.part = p.part OR (g.id = p.generation AND g.holder = p.holder AND ${heldAt(nowIn('$1'))}
      AND (p.generation, p.holder) IS DISTINCT FROM ($2::text, $3::text)))
  ORDER BY 3 DESC, 1`;
export const detach = (part: number, wasInterrupted: boolean): string =>
  `ALTER TABLE credence_store.rows DETACH PARTITION ${tableOf(part)} ${wasInterrupted ? 'FINALIZE' : 'CONCURRENTLY'}`;
export const dropTable = (part: number): string => `DROP TABLE IF EXISTS ${tableOf(part)}`;
export const FORGET_PART = 'DELETE FROM credence_store.parts WHERE part = $1';

/** Parameter: id. Without rows. */
export const HEAD = {
  name: 'head',
  text: `
  SELECT -1::bigint, status,
    json_build_array(log, position, event_id, (SELECT ${MANIFEST_VERSION} FROM credence_store.manifest))::text, part
  FROM credence_store.generations WHERE id = $1`,
};

/** The kinds of queries. A query is known by its place among its kind, from 1, and the kind. */
export const KIND = { single: 0, forward: 1, backward: 2 };
export const KINDS = 3;

/**
 * Status, checkpoint and rows of a generation, of one snapshot. The first row has -1, status, checkpoint with the
 * manifest's version, and part. The others have the number of the query (KINDS times its place, plus its kind), the sort
 * key of a row of a range, content and checksum.
 *
 * Parameters: id; view, key and sort of single rows; then, if there are any, of ranges forwards, and of those backwards:
 * view, key, the sort key beyond which they start, the number of rows.
 */
export function readStatement(part: number, hasForward: boolean, hasBackward: boolean): Omit<Statement, 'values'> {
  const table = tableOf(part);
  let parameter = 5;
  const ranges = [
    ...(hasForward ? [[KIND.forward, '>', 'ASC'] as const] : []),
    ...(hasBackward ? [[KIND.backward, '<', 'DESC'] as const] : []),
  ].map(([kind, beyond, order]) => {
    const [view, key, start, most] = [parameter++, parameter++, parameter++, parameter++];
    return `
  UNION ALL
  (SELECT ${KINDS} * q.n + ${kind}, r.sort, r.content, r.crc
    FROM unnest($${view}::text[], $${key}::text[], $${start}::text[], $${most}::integer[])
      WITH ORDINALITY AS q(view, key, start, most, n)
    CROSS JOIN LATERAL (
      SELECT sort, content, crc FROM ${table} r
      WHERE r.view = q.view AND r.key = q.key AND r.sort ${beyond} q.start AND r.sort > ''
      ORDER BY r.sort ${order} LIMIT q.most) AS r)`;
  });
  return {
    name: `read_${part}${hasForward ? '_f' : ''}${hasBackward ? '_b' : ''}`,
    text: `
  ${HEAD.text}
  UNION ALL
  (SELECT ${KINDS} * q.n + ${KIND.single}, NULL, r.content, r.crc
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS q(view, key, sort, n)
    CROSS JOIN LATERAL (
      SELECT content, crc FROM ${table} r
      WHERE r.view = q.view AND r.key = q.key AND r.sort = q.sort LIMIT 1) AS r)${ranges.join('')}`,
  };
}

/**
 * Applies rows and the checkpoint in one step; true if they are applied, also if they were before. Parameters: id, batch,
 * log, position and event id of the base, holder, time or null, position and event id after it; view, key and sort of
 * rows to remove; the columns of those to put.
 */
export function applyStatement(part: number): Omit<Statement, 'values'> {
  const table = tableOf(part);
  return {
    name: `apply_${part}`,
    text: `
  WITH fence AS (
    UPDATE credence_store.generations SET position = $8, event_id = $9, batch = $2::uuid
    WHERE id = $1 AND part = ${part} AND status IN ('building', 'ready')
      AND log = $3 AND position = $4 AND event_id IS NOT DISTINCT FROM $5
      AND holder = $6 AND ${heldAt(nowIn('$7'))} AND batch IS DISTINCT FROM $2::uuid
    RETURNING part
  ), removed AS (
    DELETE FROM ${table} r
    USING fence, unnest($10::text[], $11::text[], $12::text[]) AS q(view, key, sort)
    WHERE r.view = q.view AND r.key = q.key AND r.sort = q.sort
  ), put AS (
    INSERT INTO ${table} AS r (part, view, key, sort, content, crc)
    SELECT fence.part, q.* FROM fence,
      unnest($13::text[], $14::text[], $15::text[], $16::text[], $17::integer[]) AS q
    ON CONFLICT (view, key, sort) DO UPDATE SET content = excluded.content, crc = excluded.crc
  )
  SELECT EXISTS (SELECT FROM fence)
    OR EXISTS (SELECT FROM credence_store.generations WHERE id = $1 AND batch = $2::uuid)`,
  };
}

/** Parameters: view, key and sort of the row before, the number of rows. */
export const scanStatement = (part: number): string => `
  SELECT key, sort, content, crc FROM ${tableOf(part)}
  WHERE view = $1 AND (key, sort) > ($2, $3) ORDER BY key, sort LIMIT $4`;
/** Parameter: view. */
export const countStatement = (part: number): string => `SELECT count(*) FROM ${tableOf(part)} WHERE view = $1`;

export const TIME = `SELECT ${NOW}`;
