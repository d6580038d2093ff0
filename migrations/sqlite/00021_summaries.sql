-- +goose Up

-- A dead letter may be a summary of refused events that have none of their own (decision 71): how many, the last of them, and the minute
-- in which they were refused. 0 and NULL: it is one event. A summary's body is empty and its size positive, so that a node of the version
-- before retries none.
ALTER TABLE dead_letter ADD COLUMN summarized INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN last_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN last_event_at INTEGER;
ALTER TABLE dead_letter ADD COLUMN minute_at INTEGER;

-- A rule has one summary for each stream and minute. An update of a summary changes no column of an index.
CREATE UNIQUE INDEX dead_letter_summary ON dead_letter (rule, stream, minute_at);
