-- Read models (docs/read-models.md). The tables are the service's own: what people may rely on are the views of docs/sql.md.

CREATE TABLE credence_store.manifest (
  -- There is one row.
  is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  revision    bigint NOT NULL,
  incarnation text,
  content     json NOT NULL
);

CREATE TABLE credence_store.generations (
  id          text COLLATE "C" PRIMARY KEY,
  -- Made anew with each row: a generation that was created again under its id is another one.
  incarnation uuid NOT NULL DEFAULT gen_random_uuid(),
  views       json NOT NULL,
  status      text NOT NULL CHECK (status IN ('building', 'ready', 'damaged', 'dropped')),
  damage      text,
  -- The checkpoint.
  log         text NOT NULL,
  position    bigint NOT NULL DEFAULT 0,
  event_id    text,
  -- The batch that was applied last.
  batch       uuid,
  -- The lease. Its end and its length are in milliseconds, the end since the epoch.
  holder      text,
  held_until  bigint,
  held_for    bigint,
  -- The table of its rows, rows_<part>; null: it has none yet.
  part        integer
  -- Every batch and every renewal of a lease updates the row: it has to fit beside its older versions.
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Every table of rows, also those that are being loaded. One that is of no generation, and whose holder has no lease, is
-- dropped.
CREATE TABLE credence_store.parts (
  part       integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  generation text COLLATE "C" NOT NULL,
  holder     text NOT NULL
);

CREATE TABLE credence_store.rows (
  part    integer NOT NULL,
  view    text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  -- Empty: a row without a sort key. One that is empty itself, or begins with U+0001, has a U+0001 before it.
  sort    text COLLATE "C" NOT NULL,
  -- JSON.
  content text NOT NULL,
  -- CRC-32 of the address (view, NUL, key and, with a sort key, NUL, sort) and the content.
  crc     integer NOT NULL
) PARTITION BY LIST (part);
