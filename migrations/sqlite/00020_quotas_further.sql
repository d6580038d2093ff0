-- +goose Up

-- Whether the alerts of the row are published again (decision 67), so that no quota withholds them: 0, no; 1, they were published
-- before; 2, they were withheld before. A node of the version before holds them to the quotas.
ALTER TABLE alert_outbox ADD COLUMN again INTEGER NOT NULL DEFAULT 0;

-- Whether a quota had no room for a job of the key, whose event is a dead letter (decision 67): ends of a job of the key are remembered
-- for a retry of the letter. A node of the version before does not remember it.
ALTER TABLE early ADD COLUMN turned_away INTEGER NOT NULL DEFAULT 0;

-- Two more limits of a prefix (decision 66); NULL: the program's own. A node of the version before neither changes nor applies them.
ALTER TABLE quota ADD COLUMN job_bytes INTEGER; -- of pending jobs
ALTER TABLE quota ADD COLUMN event_bytes INTEGER; -- of events a second
