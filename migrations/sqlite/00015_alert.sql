-- +goose Up

-- Alerts are the largest rows that a job writes: searchable fields are columns, and detail has the rest.
-- Older rows have the values of the columns in detail, too.
CREATE TABLE alert_row (
    shard       INTEGER NOT NULL,
    id          BLOB NOT NULL,
    rule_id     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    status      INTEGER NOT NULL, -- 1 firing, 2 resolved, 3 undetermined, 4 gave_up, 5 expired
    severity    INTEGER NOT NULL, -- 1 info, 2 warning, 3 error, 4 critical
    key         TEXT NOT NULL,
    decided_at  INTEGER NOT NULL,
    since_at    INTEGER NOT NULL,
    check_count INTEGER NOT NULL,
    detail      TEXT NOT NULL,
    PRIMARY KEY (shard, id)
) STRICT;
INSERT INTO alert_row (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
SELECT shard, id, rule_id, version,
    CASE detail ->> 'status' WHEN 'firing' THEN 1 WHEN 'resolved' THEN 2 WHEN 'undetermined' THEN 3 WHEN 'gave_up' THEN 4 WHEN 'expired' THEN 5 ELSE 0 END,
    CASE detail ->> 'severity' WHEN 'info' THEN 1 WHEN 'warning' THEN 2 WHEN 'error' THEN 3 WHEN 'critical' THEN 4 ELSE 0 END,
    key, decided_at, CAST(round((julianday(detail ->> 'since') - 2440587.5) * 86400000) AS INTEGER) * 1000, detail ->> 'check_count', detail
FROM alert;
DROP TABLE alert;
ALTER TABLE alert_row RENAME TO alert;
