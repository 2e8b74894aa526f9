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

CREATE VIEW credence_store.contents AS
SELECT part, view, key, sort, credence_store.read_json(content) AS content FROM credence_store.rows;

CREATE VIEW credence.read_models AS
SELECT view, generation, position FROM credence_store.serving;

CREATE VIEW credence.identities AS
SELECT
  r.key AS tris_id,
  (r.content ->> 'actions')::bigint AS actions,
  (r.content ->> 'events')::bigint AS events,
  (r.content ->> 'earned')::bigint AS earned_tct,
  (r.content ->> 'flagged')::bigint AS flagged_tct,
  (r.content #>> '{bad_status,level}')::integer AS bad_status_level,
  r.content #>> '{bad_status,reason_code}' AS bad_status_reason,
  credence_store.time_of(r.content #>> '{bad_status,since}') AS bad_status_since,
  r.content -> 'verifications' AS verifications,
  coalesce(json_array_length(r.content -> 'wallets'), 0) AS wallets,
  json_array_length(r.content -> 'dead_letters') > 0 AS incomplete,
  credence_store.time_of(r.content ->> 'latest') AS last_occurred_at,
  credence_store.time_of(r.content ->> 'recorded') AS last_recorded_at,
  (r.content ->> 'changed')::bigint AS last_position
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'identities') AND r.view = 'identities';

CREATE VIEW credence.organizations AS
SELECT
  r.sort AS tris_org,
  credence_store.time_of(r.content ->> 'registered_at') AS registered_at,
  (r.content ->> 'vetted')::boolean AS vetted
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'organizations') AND r.view = 'organizations';

CREATE VIEW credence.platforms AS
SELECT r.sort AS platform_id, r.key AS tris_org, credence_store.time_of(r.content) AS registered_at
FROM credence_store.rows r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'organizations')
  AND r.view = 'organizations.platforms';

CREATE VIEW credence.validation_policies AS
SELECT
  r.sort AS policy_id,
  r.content ->> 'tris_org' AS tris_org,
  r.content ->> 'version' AS version,
  r.content ->> 'content_hash' AS content_hash,
  credence_store.time_of(r.content ->> 'created_at') AS created_at,
  (r.content ->> 'retired')::boolean AS retired
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'policies') AND r.view = 'policies';

CREATE VIEW credence.access_policies AS
SELECT
  r.sort AS policy_id,
  r.content ->> 'tris_org' AS owner,
  r.content ->> 'vp' AS validation_policy_id,
  (r.content ->> 'ttl_seconds')::integer AS ttl_seconds,
  r.content ->> 'visibility' AS visibility,
  r.content ->> 'content_hash' AS content_hash,
  credence_store.time_of(r.content ->> 'created_at') AS created_at,
  (r.content ->> 'retired')::boolean AS retired
FROM credence_store.contents r
WHERE r.part = (SELECT part FROM credence_store.serving WHERE view = 'access_policies') AND r.view = 'access_policies';
