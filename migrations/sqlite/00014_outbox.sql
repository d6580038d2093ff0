-- +goose Up

-- One row for the alerts that a transaction writes for a shard, instead of one per alert.
CREATE TABLE alert_carried AS SELECT shard, id FROM alert_outbox;
DROP TABLE alert_outbox;

-- Rows are sent in the order of the clock. first_id tells those of the same microsecond apart. It keeps its rowid: without
-- one, what is over a kilobyte would go to a page of its own.
CREATE TABLE alert_outbox (
    shard    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    first_id BLOB NOT NULL, -- when the row was written
    ids      BLOB NOT NULL, -- 16 bytes an alert, in order
    PRIMARY KEY (shard, at, first_id)
) STRICT;
INSERT INTO alert_outbox (shard, at, first_id, ids) SELECT shard, 0, id, id FROM alert_carried;
DROP TABLE alert_carried;
