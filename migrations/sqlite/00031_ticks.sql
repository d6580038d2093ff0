-- +goose Up

-- Applied ticks of schedules (decision 112), one row each. A tick that a later one stands for is counted in its row.
CREATE TABLE tick_history (
    rule_id    INTEGER NOT NULL,
    tick_at    INTEGER NOT NULL,  -- nominal
    applied_at INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    missed     INTEGER NOT NULL,  -- ticks before it that were not applied
    attempts   INTEGER NOT NULL,  -- of the node that applied it
    event_id   TEXT,              -- of the emitted event
    PRIMARY KEY (rule_id, tick_at)
) STRICT, WITHOUT ROWID;
