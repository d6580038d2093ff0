-- +goose Up

-- Ended jobs of a rule by the hour in which they ended. An hour is written once, after its end, from history.
CREATE TABLE outcome_hour (
    hour    timestamptz NOT NULL,
    jobs    bigint NOT NULL,
    took    bigint NOT NULL, -- seconds from the start to the end, rounded down by at most a tenth; 0 for kind 2
    rule_id int NOT NULL,
    kind    smallint NOT NULL, -- 0 in time, 1 late, 2 never
    PRIMARY KEY (rule_id, hour, kind, took)
);
CREATE INDEX outcome_hour_hour ON outcome_hour (hour);
