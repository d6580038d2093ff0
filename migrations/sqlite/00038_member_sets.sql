-- +goose Up

-- The numbers of the sets of members of a version's resolves, and the next number (decision 123). NULL: the places of the
-- resolves.
ALTER TABLE rule_version ADD COLUMN sets BLOB;
