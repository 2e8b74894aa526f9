-- An action is [id, occurred, recorded, metric, criticality, platform], then what is set of its source and its counterparty,
-- then [type, data] of its withdrawal or reinstatement. Another event is [id, occurred, recorded, type, data].
CREATE OR REPLACE VIEW credence.events AS
SELECT
  r.key AS tris_id,
  r.sort::bigint AS position,
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

-- Without those that are withdrawn now, and without the rows that withdraw or reinstate one.
CREATE OR REPLACE VIEW credence.credonations AS
SELECT
  r.key AS tris_id,
  r.sort::bigint AS position,
  r.content ->> 'from' AS sender,
  (r.content ->> 'amount')::bigint AS amount,
  r.content ->> 'category' AS category,
  credence_store.time_of(r.content ->> 'occurred_at') AS occurred_at
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'credonations') AND r.view = 'credonations'
  AND r.content ->> 'change' IS NULL
  AND NOT EXISTS (
    SELECT FROM credence_store.rows w
    WHERE w.part = r.part AND w.view = 'credonations.withdrawn' AND w.key = r.key AND w.sort = r.content ->> 'id'
  );
