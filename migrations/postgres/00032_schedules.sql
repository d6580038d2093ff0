-- +goose Up

-- Stored schedules of rules (decision 113). Each tick emits the event of the rule.
CREATE TABLE schedule (
    rule_id    int NOT NULL,
    id         text COLLATE "C" NOT NULL,  -- unique in the rule
    shard      smallint NOT NULL,
    text       text NOT NULL,              -- a crontab, @every or @at
    zone       text NOT NULL,              -- of the crontab; empty: UTC
    data       text,                       -- the body of its events, as JSON; NULL: the rule's
    enabled    boolean NOT NULL,
    version    bigint NOT NULL,            -- raised by each change
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_at    timestamptz,                -- nominal time of the last decided tick
    next_at    timestamptz,                -- nominal time of the next tick; NULL: none
    PRIMARY KEY (rule_id, id)
);
CREATE INDEX schedule_due ON schedule (shard, rule_id, next_at) WHERE next_at IS NOT NULL;

-- Decided ticks of stored schedules, one row each. A row is planned until its event is in a stream.
CREATE TABLE schedule_tick (
    rule_id     int NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    tick_at     timestamptz NOT NULL,      -- nominal
    shard       smallint NOT NULL,
    decided_at  timestamptz NOT NULL,
    emitted_at  timestamptz,               -- after the stream stored the event
    outcome     text NOT NULL,
    missed      int NOT NULL,              -- ticks before it that have no row
    attempts    int NOT NULL,              -- to publish the event
    held_until  timestamptz,               -- the event may be in transit until then
    PRIMARY KEY (rule_id, schedule_id, tick_at)
);
CREATE INDEX schedule_tick_planned ON schedule_tick (shard, rule_id, tick_at) WHERE outcome = 'planned';
CREATE INDEX schedule_tick_time ON schedule_tick (rule_id, tick_at, schedule_id);
