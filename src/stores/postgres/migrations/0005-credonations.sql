-- Without those that are withdrawn now, and without the rows that withdraw or reinstate one.
CREATE VIEW credence.credonations AS
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
