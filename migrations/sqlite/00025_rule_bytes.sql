-- +goose Up

-- The limit of the bytes of versions of rules of a prefix (decision 85); NULL: the program's own. A node of the version before
-- neither changes nor applies it.
ALTER TABLE quota ADD COLUMN rule_bytes INTEGER;

-- The number of the last version of a deleted rule whose versions are deleted; NULL: the rule has versions. A node of the version
-- before gives the numbers again if the name of the rule is used again.
ALTER TABLE rule ADD COLUMN last_version INTEGER;
