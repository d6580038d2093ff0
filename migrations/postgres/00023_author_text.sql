-- +goose Up

-- A version of a rule as its author wrote it in YAML, with comments and layout (decision 86); NULL: the YAML of the document. A node
-- of the version before leaves it out.
ALTER TABLE rule_version ADD COLUMN author_text text;
