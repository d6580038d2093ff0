-- +goose Up

-- One row for the alerts that a transaction writes for a shard, instead of one per alert.
CREATE TABLE alert_carried AS SELECT shard, id FROM alert_outbox;
DROP TABLE alert_outbox;

-- A later alert has a later clock: rows are published in that order. An identity column would not do, as some engines
-- allocate identities to connections by the hundred. first_id tells rows of the same microsecond apart. At most 120 ids,
-- so that a row is never over 2 kB and stays in its page, four to a page.
CREATE TABLE alert_outbox (
    at       timestamptz NOT NULL,
    first_id uuid NOT NULL,  -- when the row was written
    shard    smallint NOT NULL,
    ids      bytea NOT NULL, -- 16 bytes an alert, in order
    PRIMARY KEY (shard, at, first_id)
);
INSERT INTO alert_outbox (shard, at, first_id, ids) SELECT shard, now(), id, uuid_send(id) FROM alert_carried;
DROP TABLE alert_carried;
