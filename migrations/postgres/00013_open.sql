-- +goose Up

-- The jobs with alerts, by the newest alert of each: the open alerts, newest first. Jobs without alerts are not
-- in it.
CREATE INDEX future_job_open ON future_job (shard, substr(alert_ids, length(alert_ids) - 15), rule_id)
    WHERE alert_ids IS NOT NULL;
