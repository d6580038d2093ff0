-- +goose Up

-- The defects of a node. Each heartbeat of a node writes its row; nothing on the hot path does.
-- unfit: why the node should hold no shards; NULL or empty: it is fit. A node of the version before leaves it NULL.
-- unreadable: the versions of rules that the node cannot read, as JSON; NULL or empty: none.
ALTER TABLE node ADD COLUMN unfit text;
ALTER TABLE node ADD COLUMN unreadable text;

-- origin: which event created the job, so that its alerts keep their ids when the event is applied again after a
-- failover or a restore: the µs since 1970 at which the stream stored the event, and the lowest 12 bits of its
-- sequence. NULL: no event did. A node of the version before leaves it NULL.
ALTER TABLE future_job ADD COLUMN origin bigint;

-- How far the alert stream and the database were compared: at that time the database knew all alerts of the stream up to
-- seq. One node writes the row every few seconds; round counts the writes, so a row that goes back reveals that the database
-- went back.
-- The other columns are of a database that went back, until that is dealt with: from_seq and to_seq are the part of the
-- stream that was decided after since_at; found_at is when that was found; streams have to be read past read_at; lost is
-- how many alerts the database did not know; report says what the database lost.
CREATE TABLE alert_mark (
    id       smallint PRIMARY KEY,
    round    bigint NOT NULL,
    seq      bigint NOT NULL,
    at       timestamptz NOT NULL,
    from_seq bigint,
    to_seq   bigint,
    since_at timestamptz,
    found_at timestamptz,
    read_at  timestamptz,
    lost     bigint,
    report   text
);

-- Events that a stream lost before they were read (decision 50) are counted in the transaction that moves its cursor past
-- them. lost: those that no alert reports yet. lost_since: when the stream stored the last event applied before them.
ALTER TABLE event_cursor
    ADD COLUMN lost       bigint NOT NULL DEFAULT 0,
    ADD COLUMN lost_since timestamptz;

-- The newest version of the schema that the program of a node knows; it works with one more. NULL: a program from
-- before this column, which knows version 16. The first heartbeat of a node writes it.
ALTER TABLE node ADD COLUMN schema_known int;

-- The newest dead letters of a rule are kept; this index finds the bound and the rows to remove.
CREATE INDEX dead_letter_rule ON dead_letter (rule, id);

-- ordering: the order of a job's events from several streams, JSON: the kept
-- triggers, the newest changes, and the start of the job if it differs from since_at. NULL for every job of a rule with
-- one stream. ends: the ends that were read before their triggers, or may be followed by an older one, JSON; NULL if
-- at and outcome suffice. changes: the updates, pauses and resumes that were read before their triggers, JSON. A node of
-- the version before reads and writes none of them.
ALTER TABLE future_job ADD COLUMN ordering text;
ALTER TABLE early ADD COLUMN ends text;
ALTER TABLE early ADD COLUMN changes text;

-- Each rule and each stream has a fence of its own (decision 54). A revision is that of the rule set at the
-- last change: of the rule, of what its pending jobs depend on, of a version's row, of the rules that read a
-- stream. The fence is part of a key: its change waits for the settles that hold the row FOR KEY SHARE.
ALTER TABLE rule
    ADD COLUMN revision   bigint NOT NULL DEFAULT 0,
    ADD COLUMN fence      bigint NOT NULL DEFAULT 0,
    ADD COLUMN gate_until timestamptz;
CREATE UNIQUE INDEX rule_fence ON rule (id, fence);
ALTER TABLE rule_version ADD COLUMN revision bigint NOT NULL DEFAULT 0;
ALTER TABLE event_cursor
    ADD COLUMN revision   bigint NOT NULL DEFAULT 0,
    ADD COLUMN gate_until timestamptz;
-- noted is the revision of the last change that left its revision on the rows above. A node that knows less
-- than whole reads all rules anew.
ALTER TABLE rule_set
    ADD COLUMN noted bigint NOT NULL DEFAULT 0,
    ADD COLUMN whole bigint NOT NULL DEFAULT 0;
-- The number of removed old versions of rules.
INSERT INTO pruned (name, rows) VALUES ('rule_version', 0);

-- Steps of the database's clock that the engine followed (decision 49), the last few. by_us: the size, negative if the
-- clock went back. at: the time of the clock. undoes: the earlier step that this one undoes; NULL: none.
CREATE TABLE clock_step (
    id     int PRIMARY KEY,
    by_us  bigint NOT NULL,
    at     timestamptz NOT NULL,
    undoes int
);

-- The jobs of a shard are moved by such a step. last_id: the last job when the step was followed. jobs: the number
-- of moved jobs so far. A job that was moved has the step in shifted; NULL: none moved it.
CREATE TABLE clock_shift (
    step    int NOT NULL,
    shard   smallint NOT NULL,
    last_id bigint NOT NULL,
    jobs    bigint NOT NULL DEFAULT 0,
    done_at timestamptz,
    PRIMARY KEY (shard, step)
);
ALTER TABLE future_job ADD COLUMN shifted int;

-- Published alerts of a shard that are to be published again (decision 57), those of one rule or, where rule_id is -1, of
-- all: those decided after since_at, and those decided then whose ids are after after_id. While a shard has a row, the
-- relay puts them back into alert_outbox and publishes nothing of the shard. A node of the version before does not read it.
CREATE TABLE republication (
    shard    smallint NOT NULL,
    rule_id  int NOT NULL,
    since_at timestamptz NOT NULL,
    after_id uuid NOT NULL,
    PRIMARY KEY (shard, rule_id)
);
