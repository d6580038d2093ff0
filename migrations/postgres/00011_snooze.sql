-- +goose Up

-- Before when a job is not looked at, because somebody snoozed it; NULL for nearly all.
ALTER TABLE future_job ADD COLUMN snoozed_until timestamptz;
