-- State with a time to live that must outlast a cache: see docs/cluster.md.

CREATE TABLE credence_store.entries (
  log        text NOT NULL,
  key        text COLLATE "C" NOT NULL,
  -- Canonical JSON.
  value      text NOT NULL,
  -- In milliseconds since the epoch. Until an entry that has expired is removed, no statement sees it.
  expires_at bigint NOT NULL,
  PRIMARY KEY (log, key)
);

CREATE INDEX entries_expires_at ON credence_store.entries (expires_at);
