-- +goose Up

-- Ended jobs of a rule by the hour in which they ended. An hour is written once, after its end, from history.
CREATE TABLE outcome_hour (
    rule_id INTEGER NOT NULL,
    hour    INTEGER NOT NULL,
    kind    INTEGER NOT NULL, -- 0 in time, 1 late, 2 never
    took    INTEGER NOT NULL, -- seconds from the start to the end, rounded down by at most a tenth; 0 for kind 2
    jobs    INTEGER NOT NULL,
    PRIMARY KEY (rule_id, hour, kind, took)
) STRICT, WITHOUT ROWID;
CREATE INDEX outcome_hour_hour ON outcome_hour (hour);
