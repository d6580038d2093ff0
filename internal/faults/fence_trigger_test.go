package faults

import (
	"context"
	"fmt"
	"time"
)

// fenceLog makes a Postgres record three things: which node decides while another holds the shard, which jobs could not
// be looked up, and which jobs remain due, although all streams are read past their slot, while the lease of their
// shard records that it is swept past it. A job of the last second before that mark may still be in progress, and so
// may one whose stream was read a moment ago. Nodes are identified by the application_name of their connections. The
// triggers share no code with the program under test: a shard is taken when its epoch grows, and a decision is a
// written alert. Alerts of an event, such as resolved ones, and those of deadman itself, of rule 0, belong to no shard.
// The time is the server's real one, even if the nodes see a stepped clock. A node may release a shard while it
// settles: the next holder waits for the settlement.
const fenceLog = `
CREATE TABLE witness_holder (shard smallint PRIMARY KEY, app text NOT NULL);
CREATE TABLE witness_breach (breach text NOT NULL, at timestamptz NOT NULL);

CREATE FUNCTION witness_take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO witness_holder VALUES (NEW.shard, current_setting('application_name'))
	ON CONFLICT (shard) DO UPDATE SET app = excluded.app;
	RETURN NULL;
END $$;
CREATE TRIGGER witness_take AFTER UPDATE ON shard_lease FOR EACH ROW
	WHEN (NEW.epoch IS DISTINCT FROM OLD.epoch) EXECUTE FUNCTION witness_take();

CREATE FUNCTION witness_decide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO witness_breach
	SELECT 'P5: alert ' || NEW.id || ' of shard ' || NEW.shard || ' was decided by ' || current_setting('application_name')
		|| ' while the shard was held by ' || h.app || ' until ' || l.expires_at || ', at ' || pg_catalog.now(), NEW.decided_at
	FROM witness_holder h JOIN shard_lease l ON l.shard = h.shard
	WHERE h.shard = NEW.shard AND (h.app <> current_setting('application_name') OR l.expires_at <= pg_catalog.now() AND l.node IS NOT NULL);
	RETURN NULL;
END $$;
CREATE TRIGGER witness_decide AFTER INSERT ON alert FOR EACH ROW
	WHEN (NEW.status = 1 AND NEW.rule_id <> 0) EXECUTE FUNCTION witness_decide();

CREATE TABLE witness_patience (patience interval NOT NULL);
INSERT INTO witness_patience VALUES ('10 s');
CREATE TABLE witness_exempt (app text NOT NULL);
CREATE TABLE witness_left (shard smallint, id bigint, next_check_at timestamptz, since timestamptz NOT NULL, PRIMARY KEY (shard, id, next_check_at));
CREATE FUNCTION witness_sweep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF EXISTS (SELECT FROM witness_exempt WHERE current_setting('application_name') LIKE app || '%') THEN
		RETURN NULL;
	END IF;
	INSERT INTO witness_left
	SELECT f.shard, f.id, f.next_check_at, pg_catalog.clock_timestamp() FROM future_job f JOIN rule r ON r.id = f.rule_id
	WHERE f.shard = NEW.shard AND r.name = 'order-unshipped'
		AND f.next_check_at <= LEAST(NEW.swept_at, (SELECT min(coalesce(read_through_at, '-infinity')) FROM event_cursor WHERE stream <> ''))
	ON CONFLICT DO NOTHING;
	INSERT INTO witness_breach
	SELECT 'P13: shard ' || NEW.shard || ' counts as swept through ' || NEW.swept_at || ', and job ' || f.id || ', due at ' || f.next_check_at
		|| ', was not settled from ' || w.since || ' to ' || pg_catalog.clock_timestamp(), w.since
	FROM witness_left w JOIN future_job f USING (shard, id, next_check_at)
	WHERE w.shard = NEW.shard AND w.next_check_at <= NEW.swept_at - interval '1 s' AND w.since < pg_catalog.clock_timestamp() - (SELECT patience FROM witness_patience);
	RETURN NULL;
END $$;
CREATE TRIGGER witness_sweep AFTER UPDATE ON shard_lease FOR EACH ROW
	WHEN (NEW.swept_at IS NOT NULL) EXECUTE FUNCTION witness_sweep();

CREATE TABLE witness_unknown (rule_id int NOT NULL, key text NOT NULL, attempts int NOT NULL, at timestamptz NOT NULL);
CREATE FUNCTION witness_unknown() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO witness_unknown VALUES (NEW.rule_id, NEW.key, NEW.undecided, now());
	RETURN NULL;
END $$;
CREATE TRIGGER witness_unknown AFTER UPDATE ON future_job FOR EACH ROW
	WHEN (NEW.undecided > OLD.undecided) EXECUTE FUNCTION witness_unknown();`

// Unknown is an undetermined check of a job, as recorded by the database.
type Unknown struct {
	Key      string
	Attempts int // consecutive
	At       time.Time
}

// Unknown returns the undetermined checks of each rule. A job that ended as undetermined has used its attempts.
func (c *Checker) Unknown(ctx context.Context) (map[string][]Unknown, error) {
	attempts := map[string]int{}
	for _, l := range Lookups {
		attempts[l.Rule] = l.Attempts
	}
	rows, err := c.DB.QueryContext(ctx, `SELECT r.name, u.key, u.attempts, u.at FROM (
		SELECT rule_id, key, attempts, at FROM witness_unknown
		UNION ALL SELECT rule_id, key, 0, ended_at FROM history WHERE outcome = 'undetermined') u
		JOIN rule r ON r.id = u.rule_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string][]Unknown{}
	for rows.Next() {
		var rule string
		var u Unknown
		if err := rows.Scan(&rule, &u.Key, &u.Attempts, &u.At); err != nil {
			return nil, err
		}
		if u.Attempts == 0 {
			u.Attempts = attempts[rule]
		}
		all[rule] = append(all[rule], u)
	}
	return all, rows.Err()
}

// InstallTriggers installs the triggers of UnfencedDecisions in a Postgres with the product's schema, before the first
// node starts.
func (c *Checker) InstallTriggers(ctx context.Context) error {
	if _, err := c.DB.ExecContext(ctx, fenceLog); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// UnfencedDecisions returns the breaches that the database recorded, at most ten: decisions of nodes that did not hold
// the shard, and shards marked as swept with a job left. An alert that was decided before a failover and written after
// it was lost, and is restored from the stream.
func (c *Checker) UnfencedDecisions(ctx context.Context) (breaches []string, err error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT breach FROM witness_breach WHERE at >= $1 LIMIT 10`, c.FailedOver)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var breach string
		if err := rows.Scan(&breach); err != nil {
			return nil, err
		}
		breaches = append(breaches, breach)
	}
	return breaches, rows.Err()
}

// Holders returns the number of shards that each node holds with a valid lease.
func (c *Checker) Holders(ctx context.Context) (map[string]int, error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT h.app, count(*) FROM witness_holder h JOIN shard_lease l ON l.shard = h.shard
		WHERE l.expires_at > pg_catalog.now() GROUP BY h.app`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var app string
		var shards int
		if err := rows.Scan(&app, &shards); err != nil {
			return nil, err
		}
		all[app] = shards
	}
	return all, rows.Err()
}
