package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
	"deadman/internal/store"
)

// schemaWatch detects that a newer program migrated the database beyond the version that this program, or another
// live node, supports.
type schemaWatch struct {
	store     *store.Store
	owner     *futurejobs.Owner
	every     time.Duration
	now       func() time.Time
	noteAlert func(alerts.Alert, bool, error) error
	log       *slog.Logger

	written alerts.Status // of the alert, as last written by this node; empty: not written; used by Run alone

	mu  sync.Mutex
	err error // reason that this program does not support the schema; nil: it does, as far as known
}

// Run reads the schema until ctx ends.
func (w *schemaWatch) Run(ctx context.Context) error {
	if w.store.SingleProcess() {
		return nil // no other program migrates the database
	}
	return periodic.Run(ctx, w.every, w.log, "schema watch", w.step)
}

// step reads the schema:
//
//  1. If it is too new for this program, the node becomes unfit and not ready.
//  2. If it is too new for a live node, the maintenance node or the affected node itself raises an alert.
func (w *schemaWatch) step(ctx context.Context) error {
	schema, err := w.store.Schema(ctx)
	if err != nil {
		return err
	}
	w.note(schema)
	if !w.owner.Holds(maintenanceShard) && w.Err() == nil {
		w.written = ""
		return nil
	}
	r := behindRemark(schema, w.now())
	if r.Status == w.written {
		return nil
	}
	if err := w.noteAlert(w.store.ReportState(ctx, r)); err != nil {
		return err
	}
	w.written = r.Status
	return nil
}

// note records whether this program supports the schema.
func (w *schemaWatch) note(schema store.Schema) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.err
	w.err = nil
	if store.TooNew(schema.Applied, schema.Known) {
		w.err = fmt.Errorf("the schema is at version %d and this program works up to version %d; replace the node by a newer version",
			schema.Applied, schema.Known+1)
	}
	switch {
	case w.err != nil && before == nil:
		w.log.Error("schema too new for this node; it gives its shards back", "err", w.err)
	case w.err == nil && before != nil:
		w.log.Info("schema works for this node again", "version", schema.Applied)
	}
}

// Err returns the reason that this program does not support the schema, or nil.
func (w *schemaWatch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Unfit returns Err as text for Owner.Unfit.
func (w *schemaWatch) Unfit() string {
	if err := w.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// behindRemark returns the alert about the live nodes that do not support the schema; it is resolved if all do.
func behindRemark(schema store.Schema, now time.Time) alerts.SystemAlert {
	r := alerts.SystemAlert{Topic: "schema", Step: "behind", Status: alerts.Resolved, Severity: alerts.Error, Since: now, Text: "every live node works with the schema"}
	var names []string
	for _, n := range schema.Nodes {
		if store.TooNew(schema.Applied, n.Schema) {
			names = append(names, fmt.Sprintf("%s (deadman %s)", n.Name, n.Version))
		}
	}
	if len(names) > 0 {
		r.Status = alerts.Firing
		r.Text = fmt.Sprintf("the schema is at version %d, and these nodes cannot work with it; replace them: %s", schema.Applied, strings.Join(names, ", "))
	}
	return r
}
