-- +goose Up

-- Ticks of stored schedules whose events are posted to a webhook (decision 115). A failed attempt is repeated at retry_at.
ALTER TABLE schedule_tick ADD COLUMN retry_at timestamptz;
ALTER TABLE schedule_tick ADD COLUMN reason text;
