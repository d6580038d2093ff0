-- +goose Up

-- The limit of the stored schedules of a prefix (decision 114); NULL: the program's own.
ALTER TABLE quota ADD COLUMN schedules bigint;

-- The number of stored schedules of a rule: the sum of its parts. Each transaction changes one part, so that transactions
-- seldom wait for each other.
CREATE TABLE schedule_count (
    rule_id int NOT NULL,
    part    smallint NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (rule_id, part)
);
INSERT INTO schedule_count (rule_id, part, n) SELECT rule_id, 0, count(*) FROM schedule GROUP BY rule_id;

-- Rows that transactions lock, one for each prefix, so that together they do not exceed a quota.
CREATE TABLE quota_lock (
    prefix    text COLLATE "C" PRIMARY KEY,
    locked_at timestamptz NOT NULL
);
