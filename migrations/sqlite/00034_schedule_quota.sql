-- +goose Up

-- The limit of the stored schedules of a prefix (decision 114); NULL: the program's own.
ALTER TABLE quota ADD COLUMN schedules INTEGER;

-- The number of stored schedules of a rule: the sum of its parts. Each transaction changes one part.
CREATE TABLE schedule_count (
    rule_id INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (rule_id, part)
) STRICT, WITHOUT ROWID;
INSERT INTO schedule_count (rule_id, part, n) SELECT rule_id, 0, count(*) FROM schedule GROUP BY rule_id;

-- Rows that transactions lock, one for each prefix, so that together they do not exceed a quota.
CREATE TABLE quota_lock (
    prefix    TEXT PRIMARY KEY,
    locked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
