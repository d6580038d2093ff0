-- +goose Up

-- How long a rule keeps its history and alerts, as its newest version says (decision 108), as JSON; NULL: as the settings
-- say. A node of the version before does not change it.
ALTER TABLE rule ADD COLUMN keep TEXT;

-- Days (UTC) of which retention by rule and outcome has deleted rows. due identifies the rules and outcomes whose rows are
-- gone. again_at: then the alerts that were open or unpublished are tried again; NULL: there were none.
CREATE TABLE pruned_day (
    kind     INTEGER NOT NULL, -- 0 history, 1 alerts
    day      INTEGER NOT NULL,
    due      TEXT NOT NULL,
    again_at INTEGER,
    PRIMARY KEY (kind, day)
) STRICT, WITHOUT ROWID;
