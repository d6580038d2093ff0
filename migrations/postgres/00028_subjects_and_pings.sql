-- +goose Up

-- The limits of the captured subjects of a prefix and of the bytes of bodies in its log of pings (decision 89); NULL: the
-- program's own. A node of the version before neither changes nor applies them.
ALTER TABLE quota ADD COLUMN subjects bigint;
ALTER TABLE quota ADD COLUMN kept_ping_bytes bigint;
