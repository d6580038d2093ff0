-- +goose Up

-- Mutes that begin after their creation (decision 120). Such a mute has its end in planned_end, and its creation in ends_at:
-- a node of the version before takes it for an ended one.
ALTER TABLE mute ADD COLUMN starts_at timestamptz;   -- NULL: at its creation
ALTER TABLE mute ADD COLUMN planned_end timestamptz; -- NULL: ends_at
