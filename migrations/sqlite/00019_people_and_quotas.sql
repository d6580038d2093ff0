-- +goose Up

-- The user of a session that an identity provider authenticated, JSON (decision 63); NULL: the session of a token. A node of the
-- version before finds no token with such a session's empty token_id, and asks the user to log in.
ALTER TABLE session ADD COLUMN person TEXT;
-- The quotas of the rules and tokens of a prefix (decision 64). A limit that is NULL is the program's own. The first token of a
-- prefix writes the row, so that a tenant is never without limits; it stays when the token ends. set_at: NULL until a
-- limit is set.
CREATE TABLE quota (
    prefix      TEXT PRIMARY KEY,
    rules       INTEGER,
    jobs        INTEGER,
    events      INTEGER, -- a second
    alerts      INTEGER, -- an hour
    alert_bytes INTEGER,
    set_at      INTEGER,
    set_by      TEXT NOT NULL
) STRICT;
INSERT INTO quota (prefix, set_by) SELECT DISTINCT prefix, '' FROM token WHERE prefix <> '';

-- The alerts of a prefix that were published within an hour, and their bytes in the stream of alerts.
CREATE TABLE quota_hour (
    prefix TEXT NOT NULL,
    hour   INTEGER NOT NULL,
    alerts INTEGER NOT NULL,
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (prefix, hour)
) STRICT;

-- The number of refusals by a limit of a prefix, and the time of the last one.
CREATE TABLE quota_refusal (
    prefix     TEXT NOT NULL,
    quota      TEXT NOT NULL,
    refused    INTEGER NOT NULL,
    refused_at INTEGER NOT NULL,
    PRIMARY KEY (prefix, quota)
) STRICT;

-- Whether a quota had no room to publish an alert. Such an alert is out of the outbox. The column is last and never NULL, so that it
-- makes a row a byte longer, and not eight. A node of
-- the version before takes the alert for a published one.
ALTER TABLE alert ADD COLUMN withheld INTEGER NOT NULL DEFAULT 0;
