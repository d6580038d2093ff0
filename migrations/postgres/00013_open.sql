-- +goose Up

-- The jobs about which something was said, by the newest alert of each: what is open, newest first. Jobs that
-- never alerted are not in it.
CREATE INDEX future_job_open ON future_job (shard, substr(alert_ids, length(alert_ids) - 15), rule_id)
    WHERE alert_ids IS NOT NULL;
