-- +goose Up

-- NULL: the same as check_total, for example after a single check.
ALTER TABLE history ALTER COLUMN check_slowest DROP NOT NULL;
