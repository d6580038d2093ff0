package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// LeaseStore keeps the nodes and their leases of shards.
type LeaseStore struct{ *database }

// Heartbeat implements futurejobs.Leases.
func (s *LeaseStore) Heartbeat(ctx context.Context, n futurejobs.Node, d time.Duration) (live []futurejobs.Node, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := tx.ExecContext(ctx, `
INSERT INTO node (id, name, version, started_at, seen_at, expires_at, doing, unfit, unreadable, schema_known) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, expires_at = excluded.expires_at,
	doing = excluded.doing, unfit = excluded.unfit, unreadable = excluded.unreadable`,
			n.ID, n.Name, n.Version, n.StartedAt, now, now.Add(d), document([]byte(n.Running)), document([]byte(n.Unfit)), document([]byte(n.Unreadable)), cmp.Or(n.Schema, s.known)); err != nil {
			return err
		}
		live, err = query(ctx, tx, readNode, `SELECT `+nodeColumns+` FROM node WHERE expires_at > $1 AND seen_at <= $2 ORDER BY id`, now, now.Add(farAhead))
		return err
	})
	if err != nil {
		return nil, wrapErr("send the node heartbeat", err)
	}
	return live, nil
}

const nodeColumns = `id, name, version, started_at, seen_at, expires_at, doing, coalesce(unfit, ''), coalesce(unreadable, ''), coalesce(schema_known, 16)`

func readNode(row scanner, n *futurejobs.Node) error {
	return row.Scan(&n.ID, &n.Name, &n.Version, at(&n.StartedAt), at(&n.SeenAt), at(&n.ExpiresAt), &n.Running, &n.Unfit, &n.Unreadable, &n.Schema)
}

// Nodes returns all nodes that did not leave, by id, including dead ones until they are pruned.
func (s *LeaseStore) Nodes(ctx context.Context) ([]futurejobs.Node, error) {
	nodes, err := query(ctx, s.read, readNode, `SELECT `+nodeColumns+` FROM node ORDER BY id`)
	if err != nil {
		return nil, wrapErr("nodes", err)
	}
	return nodes, nil
}

// Leave implements futurejobs.Leases.
func (s *LeaseStore) Leave(ctx context.Context, node string) error {
	if _, err := exec(ctx, s.db, `DELETE FROM node WHERE id = $1`, node); err != nil {
		return wrapErr("leave", err)
	}
	return nil
}

// Leases implements futurejobs.Leases.
func (s *LeaseStore) Leases(ctx context.Context) ([]futurejobs.Lease, error) {
	leases, err := query(ctx, s.read, s.readLease, `SELECT `+leaseColumns+`, now() FROM shard_lease ORDER BY shard`)
	if err != nil {
		return nil, wrapErr("leases", err)
	}
	return leases, nil
}

const leaseColumns = `shard, epoch, coalesce(node, ''), expires_at, low_water_at, swept_at`

// readLease reads a lease and the database's time.
func (s *LeaseStore) readLease(row scanner, l *futurejobs.Lease) error {
	var now time.Time
	if err := row.Scan(&l.Shard, &l.Epoch, &l.Node, at(&l.ExpiresAt), at(&l.LowWater), at(&l.Swept), at(&now)); err != nil {
		return err
	}
	now = s.correct(now)
	l.Expired, l.Left = !l.ExpiresAt.After(now), l.ExpiresAt.Sub(now)
	return nil
}

// Renew implements futurejobs.Leases. An expired lease is not renewed, even if no node took it.
func (s *LeaseStore) Renew(ctx context.Context, node string, held []futurejobs.Lease, d time.Duration) (still []futurejobs.HeldShard, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		still = nil
		for _, l := range held {
			n, err := exec(ctx, tx, `
UPDATE shard_lease SET expires_at = $1, low_water_at = $2, swept_at = $3
WHERE shard = $4 AND epoch = $5 AND node = $6 AND expires_at > $7`,
				now.Add(d), when(l.LowWater), when(l.Swept), l.Shard, l.Epoch, node, now)
			if err != nil {
				return err
			}
			if n == 1 {
				still = append(still, l.HeldShard)
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrapErr("renew", err)
	}
	return still, nil
}

// Take implements futurejobs.Leases. It blocks behind a settle that holds the shard, so the lease runs from the time
// before.
func (s *LeaseStore) Take(ctx context.Context, node string, seen futurejobs.HeldShard, d time.Duration) (got futurejobs.Lease, ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		err := s.readLease(tx.QueryRowContext(ctx, `
UPDATE shard_lease SET epoch = epoch + 1, node = $1, expires_at = $2
WHERE shard = $3 AND epoch = $4 AND (node IS NULL OR expires_at <= $5)
RETURNING `+leaseColumns+`, now()`,
			node, now.Add(d), seen.Shard, seen.Epoch, now), &got)
		ok = err == nil
		return ignoreErr(errors.Is(err, sql.ErrNoRows), err)
	})
	if err != nil {
		return futurejobs.Lease{}, false, wrapErr("take", err)
	}
	return got, ok, nil
}

// Free implements futurejobs.Leases.
func (s *LeaseStore) Free(ctx context.Context, seen futurejobs.Lease) (ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `UPDATE shard_lease SET node = NULL, expires_at = $1 WHERE shard = $2 AND epoch = $3 AND node = $4 AND expires_at = $5`,
			now, seen.Shard, seen.Epoch, seen.Node, seen.ExpiresAt)
		ok = n == 1
		return err
	})
	if err != nil {
		return false, wrapErr("free", err)
	}
	return ok, nil
}

// Release implements futurejobs.Leases.
func (s *LeaseStore) Release(ctx context.Context, node string, held []futurejobs.Lease) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		for _, l := range held {
			if _, err := exec(ctx, tx, `
UPDATE shard_lease SET node = NULL, expires_at = $1, low_water_at = $2, swept_at = $3
WHERE shard = $4 AND epoch = $5 AND node = $6`,
				now, when(l.LowWater), when(l.Swept), l.Shard, l.Epoch, node); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wrapErr("release", err)
	}
	return nil
}

// Reclaim frees all leases and deletes all nodes. It is for a SingleProcess store: the process that held them is gone.
func (s *LeaseStore) Reclaim(ctx context.Context) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE shard_lease SET node = NULL, expires_at = $1 WHERE node IS NOT NULL`, now); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `DELETE FROM node`)
		return err
	})
	if err != nil {
		return wrapErr("reclaim", err)
	}
	return nil
}

// OtherNodeAlive implements futurejobs.GapStore.
func (s *LeaseStore) OtherNodeAlive(ctx context.Context, node string, since time.Time) (seen bool, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	if err := s.read.QueryRowContext(ctx, `SELECT count(*) > 0 FROM node WHERE id <> $1 AND seen_at > $2 AND seen_at <= now()`, node, since).Scan(&seen); err != nil {
		return false, wrapErr("other node alive", err)
	}
	return seen, nil
}

// forgetNodes deletes nodes that died more than a day ago.
func (s *LeaseStore) forgetNodes(ctx context.Context, now time.Time) error {
	_, err := exec(ctx, s.db, `DELETE FROM node WHERE expires_at < $1`, now.Add(-futurejobs.Day))
	return err
}

// checkHeld returns ErrNotHeld unless one of the shards is held, and stays held until the transaction ends.
func checkHeld(ctx context.Context, tx *sql.Tx, held []futurejobs.HeldShard, now time.Time) error {
	for _, h := range held {
		n, err := exec(ctx, tx, `UPDATE shard_lease SET epoch = epoch WHERE shard = $1 AND epoch = $2 AND expires_at > $3`, h.Shard, h.Epoch, now)
		if err != nil || n == 1 {
			return err
		}
	}
	return futurejobs.ErrNotHeld
}
