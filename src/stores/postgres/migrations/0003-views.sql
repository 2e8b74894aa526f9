-- Views for people: docs/sql.md. They show what serves, and run with the rights of their owner, so that whoever may read
-- them needs no right on credence_store. A generation that is being built, or is damaged, is not shown.

CREATE SCHEMA IF NOT EXISTS credence;

-- The table of each view that serves. As a scalar subquery of a condition on `part` it lets PostgreSQL skip all others.
CREATE VIEW credence_store.serving AS
SELECT v.key AS view, g.id AS generation, g.part, g.position
FROM credence_store.manifest m
CROSS JOIN json_each_text(m.content -> 'views') v
JOIN credence_store.generations g ON g.id = v.value AND g.status = 'ready';

-- The content of a row. PostgreSQL reads neither NUL nor half of a surrogate pair; both are shown as U+FFFD.
CREATE FUNCTION credence_store.read_json(content text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN strpos(content, '\u') = 0 THEN content
    ELSE regexp_replace(content, '(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})', '\1\\ufffd', 'g')
  END::json
$$;

CREATE FUNCTION credence_store.time_of(milliseconds text) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT to_timestamp(milliseconds::bigint / 1000.0)
$$;

CREATE VIEW credence.read_models AS
SELECT view, generation, position FROM credence_store.serving;

CREATE VIEW credence.identities AS
SELECT
  r.key AS tris_id,
  (c.content ->> 'actions')::bigint AS actions,
  (c.content ->> 'events')::bigint AS events,
  (c.content ->> 'earned')::bigint AS earned_tct,
  (c.content ->> 'flagged')::bigint AS flagged_tct,
  (c.content #>> '{bad_status,level}')::integer AS bad_status_level,
  c.content #>> '{bad_status,reason_code}' AS bad_status_reason,
  credence_store.time_of(c.content #>> '{bad_status,since}') AS bad_status_since,
  c.content -> 'verifications' AS verifications,
  coalesce(json_array_length(c.content -> 'wallets'), 0) AS wallets,
  json_array_length(c.content -> 'dead_letters') > 0 AS incomplete,
  credence_store.time_of(c.content ->> 'latest') AS last_occurred_at,
  credence_store.time_of(c.content ->> 'recorded') AS last_recorded_at,
  (c.content ->> 'changed')::bigint AS last_position
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'identities') AND r.view = 'identities';

-- An action is [id, occurred, recorded, metric, criticality, platform], another event [id, occurred, recorded, type, data].
CREATE VIEW credence.events AS
SELECT
  r.key AS tris_id,
  r.sort::bigint AS position,
  c.content ->> 0 AS event_id,
  CASE json_array_length(c.content) WHEN 6 THEN 'ActionRelayed' ELSE c.content ->> 3 END AS type,
  credence_store.time_of(c.content ->> 1) AS occurred_at,
  credence_store.time_of(c.content ->> 2) AS recorded_at,
  CASE json_array_length(c.content) WHEN 6 THEN c.content ->> 3 END AS metric,
  CASE json_array_length(c.content) WHEN 6
    THEN ('{Minimal,Low,Moderate,High,Critical}'::text[])[(c.content ->> 4)::integer + 1] END AS criticality,
  CASE json_array_length(c.content) WHEN 6 THEN c.content ->> 5 END AS platform_id,
  CASE json_array_length(c.content) WHEN 5 THEN c.content -> 4 END AS data
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'timeline') AND r.view = 'timeline';

CREATE VIEW credence.credonations AS
SELECT
  r.key AS tris_id,
  r.sort::bigint AS position,
  c.content ->> 'from' AS sender,
  (c.content ->> 'amount')::bigint AS amount,
  c.content ->> 'category' AS category,
  credence_store.time_of(c.content ->> 'occurred_at') AS occurred_at
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'credonations') AND r.view = 'credonations';

-- The sort key is the time, 15 digits, then the position.
CREATE VIEW credence.decisions AS
SELECT
  c.content ->> 'jti' AS jti,
  credence_store.time_of(left(r.sort, 15)) AS checked_at,
  substr(r.sort, 16)::bigint AS position,
  c.content ->> 'subject_tris' AS subject_tris,
  c.content ->> 'policy_id' AS policy_id,
  c.content ->> 'owner' AS owner,
  (c.content ->> 'granted')::boolean AS granted
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'decisions') AND r.view = 'decisions';

CREATE VIEW credence.organizations AS
SELECT
  r.sort AS tris_org,
  credence_store.time_of(c.content ->> 'registered_at') AS registered_at,
  (c.content ->> 'vetted')::boolean AS vetted
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'organizations') AND r.view = 'organizations';

CREATE VIEW credence.platforms AS
SELECT r.sort AS platform_id, r.key AS tris_org, credence_store.time_of(r.content) AS registered_at
FROM credence_store.rows r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'organizations')
  AND r.view = 'organizations.platforms';

CREATE VIEW credence.validation_policies AS
SELECT
  r.sort AS policy_id,
  c.content ->> 'tris_org' AS tris_org,
  c.content ->> 'version' AS version,
  c.content ->> 'content_hash' AS content_hash,
  credence_store.time_of(c.content ->> 'created_at') AS created_at,
  (c.content ->> 'retired')::boolean AS retired
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'policies') AND r.view = 'policies';

CREATE VIEW credence.access_policies AS
SELECT
  r.sort AS policy_id,
  c.content ->> 'tris_org' AS owner,
  c.content ->> 'vp' AS validation_policy_id,
  (c.content ->> 'ttl_seconds')::integer AS ttl_seconds,
  c.content ->> 'visibility' AS visibility,
  c.content ->> 'content_hash' AS content_hash,
  credence_store.time_of(c.content ->> 'created_at') AS created_at,
  (c.content ->> 'retired')::boolean AS retired
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'access_policies') AND r.view = 'access_policies';

CREATE VIEW credence.dead_letters AS
SELECT
  r.sort::bigint AS position,
  c.content ->> 'event_id' AS event_id,
  c.content ->> 'event_type' AS event_type,
  c.content ->> 'stream' AS stream,
  c.content ->> 'tris_id' AS tris_id,
  c.content ->> 'reason' AS reason,
  credence_store.time_of(c.content #>> '{acknowledged,at}') AS acknowledged_at,
  c.content #>> '{acknowledged,by}' AS acknowledged_by,
  c.content #>> '{acknowledged,reason_code}' AS acknowledged_reason
FROM credence_store.rows r
CROSS JOIN LATERAL (SELECT credence_store.read_json(r.content) AS content) c
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'dead_letters') AND r.view = 'dead_letters';
