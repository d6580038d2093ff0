-- +goose Up

-- Since when a stream is heard without a gap. The row without a stream is about pings.
ALTER TABLE event_cursor ADD COLUMN heard_since timestamptz;

-- What was checked, by the minute of its slot. Rule 0 is those that are not counted apart.
CREATE TABLE slot_load (
    at      timestamptz NOT NULL,
    rule_id int NOT NULL,
    checks  bigint NOT NULL,
    alerts  bigint NOT NULL,
    lag     bigint NOT NULL, -- µs, of the check that was the latest behind its slot
    PRIMARY KEY (at, rule_id)
);
