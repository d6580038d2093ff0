-- +goose Up

-- How far a shard was swept by the last sweep that came through.
ALTER TABLE shard_lease ADD COLUMN swept_at timestamptz;

-- How far something came that is always to go on: the sweep of all shards, the intake of a
-- stream. late is there while it stands still: how many jobs were found waiting for it.
CREATE TABLE progress (
    topic      text COLLATE "C" PRIMARY KEY,
    through_at timestamptz NOT NULL,
    late       int
);
