-- +goose Up

-- Alerts are the largest rows that a job writes: searchable fields are columns, and detail has the rest.
-- Older rows have the values of the columns in detail, too.
CREATE TABLE alert_row (
    id          uuid NOT NULL,
    decided_at  timestamptz NOT NULL,
    since_at    timestamptz NOT NULL,
    rule_id     int NOT NULL,
    version     int NOT NULL,
    check_count int NOT NULL,
    shard       smallint NOT NULL,
    status      smallint NOT NULL, -- 1 firing, 2 resolved, 3 undetermined, 4 gave_up, 5 expired
    severity    smallint NOT NULL, -- 1 info, 2 warning, 3 error, 4 critical
    key         text COLLATE "C" NOT NULL,
    detail      text NOT NULL,
    PRIMARY KEY (shard, id)
);
INSERT INTO alert_row (id, decided_at, since_at, rule_id, version, check_count, shard, status, severity, key, detail)
SELECT id, decided_at, (detail::jsonb ->> 'since')::timestamptz, rule_id, version, (detail::jsonb ->> 'check_count')::int, shard,
    CASE detail::jsonb ->> 'status' WHEN 'firing' THEN 1 WHEN 'resolved' THEN 2 WHEN 'undetermined' THEN 3 WHEN 'gave_up' THEN 4 WHEN 'expired' THEN 5 ELSE 0 END,
    CASE detail::jsonb ->> 'severity' WHEN 'info' THEN 1 WHEN 'warning' THEN 2 WHEN 'error' THEN 3 WHEN 'critical' THEN 4 ELSE 0 END,
    key, detail
FROM alert;
DROP TABLE alert;
ALTER TABLE alert_row RENAME TO alert;
ALTER INDEX alert_row_pkey RENAME TO alert_pkey;
