-- The sort key of a position is one character, the number of its digits, and then the digits. In rows of an earlier build it has
-- 16 digits, of which the first is 0: so this reads both.
CREATE FUNCTION credence_store.position_of(sort text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT substr(sort, 2)::bigint
$$;

-- The sort key is the time, 15 digits, then that of the position.
CREATE OR REPLACE VIEW credence.decisions AS
SELECT
  r.content ->> 'jti' AS jti,
  credence_store.time_of(left(r.sort, 15)) AS checked_at,
  credence_store.position_of(substr(r.sort, 16)) AS position,
  r.content ->> 'subject_tris' AS subject_tris,
  r.content ->> 'policy_id' AS policy_id,
  r.content ->> 'owner' AS owner,
  (r.content ->> 'granted')::boolean AS granted
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'decisions') AND r.view = 'decisions';

-- An action is [id, occurred, recorded, metric, criticality, platform], then what is set of its source and its counterparty,
-- then [type, data] of its withdrawal or reinstatement. Another event is [id, occurred, recorded, type, data].
CREATE OR REPLACE VIEW credence.events AS
SELECT
  r.key AS tris_id,
  credence_store.position_of(r.sort) AS position,
  c.content ->> 0 AS event_id,
  CASE WHEN a.is_action THEN coalesce(c.content #>> '{7,0}', 'ActionRelayed') ELSE c.content ->> 3 END AS type,
  credence_store.time_of(c.content ->> 1) AS occurred_at,
  credence_store.time_of(c.content ->> 2) AS recorded_at,
  CASE WHEN a.is_action THEN c.content ->> 3 END AS metric,
  CASE WHEN a.is_action
    THEN ('{Minimal,Low,Moderate,High,Critical}'::text[])[(c.content ->> 4)::integer + 1] END AS criticality,
  CASE WHEN a.is_action THEN c.content ->> 5 END AS platform_id,
  CASE WHEN a.is_action THEN c.content #> '{7,1}' ELSE c.content -> 4 END AS data,
  CASE WHEN a.is_action THEN coalesce(c.content #>> '{6,source}', 'vouched') END AS source,
  c.content #>> '{6,counterparty}' AS counterparty
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
CROSS JOIN LATERAL (SELECT json_array_length(c.content) > 5 AS is_action) a
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'timeline') AND r.view = 'timeline';

-- A credonation is [sender, amount, occurred, category, id]; a row that withdraws or reinstates one has a sixth element. Rows of
-- an earlier build are objects, and are read as long as they serve. A credonation that is withdrawn now is not shown.
CREATE OR REPLACE VIEW credence.credonations AS
SELECT
  r.key AS tris_id,
  credence_store.position_of(r.sort) AS position,
  coalesce(r.content ->> 0, r.content ->> 'from') AS sender,
  coalesce(r.content ->> 1, r.content ->> 'amount')::bigint AS amount,
  coalesce(r.content ->> 3, r.content ->> 'category') AS category,
  credence_store.time_of(coalesce(r.content ->> 2, r.content ->> 'occurred_at')) AS occurred_at
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'credonations') AND r.view = 'credonations'
  AND coalesce(r.content ->> 5, r.content ->> 'change') IS NULL
  AND NOT EXISTS (
    SELECT FROM credence_store.rows w
    WHERE w.part = r.part AND w.view = 'credonations.withdrawn' AND w.key = r.key AND w.sort = coalesce(r.content ->> 4, r.content ->> 'id')
  );

CREATE OR REPLACE VIEW credence.dead_letters AS
SELECT
  credence_store.position_of(r.sort) AS position,
  r.content ->> 'event_id' AS event_id,
  r.content ->> 'event_type' AS event_type,
  r.content ->> 'stream' AS stream,
  r.content ->> 'tris_id' AS tris_id,
  r.content ->> 'reason' AS reason,
  credence_store.time_of(r.content #>> '{acknowledged,at}') AS acknowledged_at,
  r.content #>> '{acknowledged,by}' AS acknowledged_by,
  r.content #>> '{acknowledged,reason_code}' AS acknowledged_reason
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'dead_letters') AND r.view = 'dead_letters';
