-- +goose Up

-- The start of the gap-free period of a stream. The row without a stream is for pings.
ALTER TABLE event_cursor ADD COLUMN heard_since timestamptz;

-- Checks by the minute of their slot. Rule 0 stands for the rules that are not counted separately.
CREATE TABLE slot_load (
    at      timestamptz NOT NULL,
    rule_id int NOT NULL,
    checks  bigint NOT NULL,
    alerts  bigint NOT NULL,
    lag     bigint NOT NULL, -- µs, the largest lateness of a check
    PRIMARY KEY (at, rule_id)
);
