-- +goose Up

-- Applied ticks of schedules (decision 112), one row each. A tick that a later one stands for is counted in its row.
CREATE TABLE tick_history (
    rule_id    int NOT NULL,
    tick_at    timestamptz NOT NULL,  -- nominal
    applied_at timestamptz NOT NULL,
    outcome    text NOT NULL,
    missed     int NOT NULL,          -- ticks before it that were not applied
    attempts   int NOT NULL,          -- of the node that applied it
    event_id   text COLLATE "C",      -- of the emitted event
    PRIMARY KEY (rule_id, tick_at)
);
