-- +goose Up

-- Ticks of a rule with an outcome other than the usual one. Few rows have one, so the index costs emitted ticks nothing.
CREATE INDEX schedule_tick_outcome ON schedule_tick (rule_id, outcome, tick_at, schedule_id) WHERE outcome NOT IN ('emitted', 'planned');
