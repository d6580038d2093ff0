-- +goose Up

-- How far a shard was swept by the last sweep that came through.
ALTER TABLE shard_lease ADD COLUMN swept_at INTEGER;

-- How far something came that is always to go on: the sweep of all shards, the intake of a
-- stream. late is there while it stands still: how many jobs were found waiting for it.
CREATE TABLE progress (
    topic      TEXT PRIMARY KEY,
    through_at INTEGER NOT NULL,
    late       INTEGER
) STRICT;
