-- +goose Up

-- Since when a stream is heard without a gap. The row without a stream is about pings.
ALTER TABLE event_cursor ADD COLUMN heard_since INTEGER;

-- What was checked, by the minute of its slot. Rule 0 is those that are not counted apart.
CREATE TABLE slot_load (
    at      INTEGER NOT NULL,
    rule_id INTEGER NOT NULL,
    checks  INTEGER NOT NULL,
    alerts  INTEGER NOT NULL,
    lag     INTEGER NOT NULL, -- µs, of the check that was the latest behind its slot
    PRIMARY KEY (at, rule_id)
) STRICT, WITHOUT ROWID;
