package store

import (
	"context"
	"database/sql"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// AuditStore keeps the audit.
type AuditStore struct{ *database }

// Note implements access.Store.
func (s *AuditStore) Note(ctx context.Context, action access.Action, object, detail string) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error { return audit(ctx, tx, now, action, object, detail) })
	if err != nil {
		return wrapErr("note "+string(action), err)
	}
	return nil
}

// Audit implements access.Store.
func (s *AuditStore) Audit(ctx context.Context, f access.AuditFilter) (entries []access.AuditEntry, next string, err error) {
	before := position{ID: maxID}
	if err := before.read("audit", f.Cursor); err != nil {
		return nil, "", err
	}
	size := futurejobs.Filter{Limit: f.Limit}
	text, args := auditText(f, before.ID, limit(size)+1)
	found, err := query(ctx, s.read, readEntry, text, args...)
	if err != nil {
		return nil, "", wrapErr("audit", err)
	}
	page := paged("audit", found, size, func(e access.AuditEntry) position { return position{ID: e.ID} })
	return page.Items, page.Next, nil
}

// PruneAudit deletes audit entries before the given time, and tokens that ended before it, in bounded transactions. It
// returns the number of entries. The newest token stays forever: it tells a node that it must never be open again.
func (s *AuditStore) PruneAudit(ctx context.Context, before time.Time) (int64, error) {
	if _, err := exec(ctx, s.db, `DELETE FROM token WHERE (revoked_at < $1 OR expires_at < $1) AND id < (SELECT max(n.id) FROM token n)`, before); err != nil {
		return 0, err
	}
	return s.pruneAll(ctx, "audit", `DELETE FROM audit WHERE id IN
	(SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT $1) AS oldest WHERE at < $2)`, pruneBatch, before)
}
