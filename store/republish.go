package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// republishMost is how many alerts one transaction puts back into the outbox.
const republishMost = 5000

// published is which alerts a filter means that were published: those decided since an
// instant, of which the outbox has none.
const published = ` FROM alert a` + notWaiting + ` WHERE a.shard = $1 AND a.id > $2 AND a.decided_at >= $3 AND w.id IS NULL`

// Republish puts published alerts that were decided since f.After back into the outbox, those
// of one rule or all, and audits that. It returns how many, and where the next call goes on;
// empty: nowhere. A rule that never was is futurejobs.ErrNotFound.
func (s *Store) Republish(ctx context.Context, f futurejobs.Filter) (n int64, next string, err error) {
	var from position
	if err := from.read("republish", f.Cursor); err != nil {
		return 0, "", err
	}
	scopes, err := s.republishable(ctx, f)
	if err != nil {
		return 0, "", failed("republish", err)
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		if n, next, err = s.requeue(ctx, tx, scopes, f.After, from); err != nil || n == 0 {
			return err
		}
		object := "alerts"
		if f.Rule != "" {
			object = "rule/" + f.Rule
		}
		return audit(ctx, tx, now, "alert.republish", object, fmt.Sprintf("alerts decided since %s: %d", f.After.Format(time.RFC3339), n))
	})
	if err != nil {
		return 0, "", failed("republish", err)
	}
	return n, next, nil
}

// Republishable counts what Republish would put back, in all calls together.
func (s *Store) Republishable(ctx context.Context, f futurejobs.Filter) (n int64, err error) {
	scopes, err := s.republishable(ctx, f)
	if err != nil {
		return 0, failed("count what can be republished", err)
	}
	var before alerts.ID
	for _, c := range scopes {
		var some int64
		if err := s.read.QueryRowContext(ctx, s.waiting()+` SELECT count(*)`+published+c.and("a"), c.shard, before[:], f.After).Scan(&some); err != nil {
			return 0, failed("count what can be republished", err)
		}
		n += some
	}
	return n, nil
}

func (s *Store) republishable(ctx context.Context, f futurejobs.Filter) ([]scope, error) {
	scopes, err := s.scopes(ctx, futurejobs.Filter{Rule: f.Rule})
	if err == nil && len(scopes) == 0 {
		err = fmt.Errorf("rule %s: %w", f.Rule, futurejobs.ErrNotFound)
	}
	return scopes, err
}

// requeue writes the outbox, shard by shard in the order of ids. Of two calls at a time both may
// put back an alert: it is sent twice, and the stream refuses the repeat.
func (s *Store) requeue(ctx context.Context, tx *sql.Tx, scopes []scope, since time.Time, from position) (n int64, next string, err error) {
	for _, c := range scopes {
		after := from.Alert
		switch {
		case c.shard < from.Shard:
			continue
		case c.shard > from.Shard:
			after = alerts.ID{}
		}
		room := republishMost - int(n)
		ids, err := query(ctx, tx, func(row scanner, id *alerts.ID) error { return row.Scan(id) },
			s.waiting()+` SELECT a.id`+published+c.and("a")+` ORDER BY a.id LIMIT `+strconv.Itoa(room), c.shard, after[:], since)
		if err != nil {
			return 0, "", err
		}
		for part := range slices.Chunk(ids, rowMost) {
			if _, err := exec(ctx, tx, postOne, c.shard, part[0][:], packed(part)); err != nil {
				return 0, "", err
			}
		}
		n += int64(len(ids))
		if len(ids) == room {
			return n, position{List: "republish", Shard: c.shard, Alert: ids[room-1]}.cursor(), nil
		}
	}
	return n, "", nil
}
