-- +goose Up

-- The person of a session for whom a provider vouched, JSON (decision 63); NULL: the session is that of the token. A node of the
-- version before finds no token with such a session's empty token_id, and asks the person to log in.
ALTER TABLE session ADD COLUMN person text;

-- What the rules and tokens of a prefix may take in all (decision 64). A limit that is NULL is the program's own. The first token of a
-- prefix writes the row, so that a tenant is never without limits; it stays when the token ends. set_at: NULL, as long as nobody
-- set a limit.
CREATE TABLE quota (
    prefix      text PRIMARY KEY,
    rules       bigint,
    jobs        bigint,
    events      bigint, -- a second
    alerts      bigint, -- an hour
    alert_bytes bigint,
    set_at      timestamptz,
    set_by      text NOT NULL
);
INSERT INTO quota (prefix, set_by) SELECT DISTINCT prefix, '' FROM token WHERE prefix <> '';

-- The alerts of a prefix that were published within an hour, and their bytes in the stream of alerts.
CREATE TABLE quota_hour (
    prefix text NOT NULL,
    hour   timestamptz NOT NULL,
    alerts bigint NOT NULL,
    bytes  bigint NOT NULL,
    PRIMARY KEY (prefix, hour)
);

-- How often a limit of a prefix refused something, and when last.
CREATE TABLE quota_refusal (
    prefix     text NOT NULL,
    quota      text NOT NULL,
    refused    bigint NOT NULL,
    refused_at timestamptz NOT NULL,
    PRIMARY KEY (prefix, quota)
);

-- Whether a quota had no room to publish an alert. Such an alert is out of the outbox. The column is last and never NULL, so that it
-- makes a row a byte longer, and not eight. A node of
-- the version before takes the alert for a published one.
ALTER TABLE alert ADD COLUMN withheld boolean NOT NULL DEFAULT false;
