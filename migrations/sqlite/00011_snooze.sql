-- +goose Up

-- The end of a job's snooze: it is not checked before. NULL for nearly all jobs.
ALTER TABLE future_job ADD COLUMN snoozed_until INTEGER;
