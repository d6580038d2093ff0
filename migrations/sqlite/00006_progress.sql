-- +goose Up

-- How far the last completed sweep of a shard came.
ALTER TABLE shard_lease ADD COLUMN swept_at INTEGER;

-- The progress of the sweep of all shards and of the ingest of each stream. late is set during a
-- monitoring gap: the number of jobs that wait because of it.
CREATE TABLE progress (
    topic      TEXT PRIMARY KEY,
    through_at INTEGER NOT NULL,
    late       INTEGER
) STRICT;
