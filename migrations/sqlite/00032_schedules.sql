-- +goose Up

-- Stored schedules of rules (decision 113). Each tick emits the event of the rule.
CREATE TABLE schedule (
    rule_id    INTEGER NOT NULL,
    id         TEXT NOT NULL,     -- unique in the rule
    shard      INTEGER NOT NULL,
    text       TEXT NOT NULL,     -- a crontab, @every or @at
    zone       TEXT NOT NULL,     -- of the crontab; empty: UTC
    data       TEXT,              -- the body of its events, as JSON; NULL: the rule's
    enabled    INTEGER NOT NULL,
    version    INTEGER NOT NULL,  -- raised by each change
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_at    INTEGER,           -- nominal time of the last decided tick
    next_at    INTEGER,           -- nominal time of the next tick; NULL: none
    PRIMARY KEY (rule_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule (shard, rule_id, next_at) WHERE next_at IS NOT NULL;

-- Decided ticks of stored schedules, one row each. A row is planned until its event is in a stream.
CREATE TABLE schedule_tick (
    rule_id     INTEGER NOT NULL,
    schedule_id TEXT NOT NULL,
    tick_at     INTEGER NOT NULL,  -- nominal
    shard       INTEGER NOT NULL,
    decided_at  INTEGER NOT NULL,
    emitted_at  INTEGER,           -- after the stream stored the event
    outcome     TEXT NOT NULL,
    missed      INTEGER NOT NULL,  -- ticks before it that have no row
    attempts    INTEGER NOT NULL,  -- to publish the event
    held_until  INTEGER,           -- the event may be in transit until then
    PRIMARY KEY (rule_id, schedule_id, tick_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_tick_planned ON schedule_tick (shard, rule_id, tick_at) WHERE outcome = 'planned';
CREATE INDEX schedule_tick_time ON schedule_tick (rule_id, tick_at, schedule_id);
