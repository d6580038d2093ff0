-- +goose Up

-- What a node cannot do. Each beat of a node writes its row; nothing on the hot path does.
-- unfit: why the node should hold no shards; NULL or empty: it is fit. A node of the version before leaves it NULL.
-- unreadable: the versions of rules that the node cannot read, as JSON; NULL or empty: none.
ALTER TABLE node ADD COLUMN unfit text;
ALTER TABLE node ADD COLUMN unreadable text;
