-- +goose Up

-- Ticks of schedules by the minute of their nominal time, beside the checks. A node of the version before counts none.
ALTER TABLE slot_load ADD COLUMN ticks bigint NOT NULL DEFAULT 0;         -- with a record
ALTER TABLE slot_load ADD COLUMN missed_ticks bigint NOT NULL DEFAULT 0;  -- without one
ALTER TABLE slot_load ADD COLUMN tick_lag bigint NOT NULL DEFAULT 0;      -- µs, the largest until an event or jobs
