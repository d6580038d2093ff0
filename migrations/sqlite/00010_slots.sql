-- +goose Up

-- The start of the gap-free period of a stream. The row without a stream is for pings.
ALTER TABLE event_cursor ADD COLUMN heard_since INTEGER;

-- Checks by the minute of their slot. Rule 0 stands for the rules that are not counted separately.
CREATE TABLE slot_load (
    at      INTEGER NOT NULL,
    rule_id INTEGER NOT NULL,
    checks  INTEGER NOT NULL,
    alerts  INTEGER NOT NULL,
    lag     INTEGER NOT NULL, -- µs, the largest lateness of a check
    PRIMARY KEY (at, rule_id)
) STRICT, WITHOUT ROWID;
