-- +goose Up

-- How long a rule keeps its history and alerts, as its newest version says (decision 108), as JSON; NULL: as the settings
-- say. A node of the version before does not change it.
ALTER TABLE rule ADD COLUMN keep text;

-- Days (UTC) of which retention by rule and outcome has deleted rows. due identifies the rules and outcomes whose rows are
-- gone. again_at: then the alerts that were open or unpublished are tried again; NULL: there were none.
CREATE TABLE pruned_day (
    day      timestamptz NOT NULL,
    again_at timestamptz,
    kind     smallint NOT NULL, -- 0 history, 1 alerts
    due      text NOT NULL,
    PRIMARY KEY (kind, day)
);
