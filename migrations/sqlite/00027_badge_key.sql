-- +goose Up

-- Keys that sign the addresses of badges. Without its row, a rule has no badges.
CREATE TABLE badge_key (
    rule_id INTEGER PRIMARY KEY,
    secret  TEXT NOT NULL -- 32 bytes, as hexadecimal digits
) STRICT;
