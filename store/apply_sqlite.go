package store

import (
	"context"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

const (
	findOne = `SELECT ` + jobColumns + ` FROM future_job f WHERE f.shard = $1 AND f.rule_id = $2 AND f.key = $3`

	createOne = `
INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event, state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id`
)

// Apply implements futurejobs.Ledger. The one writer has all jobs locked.
func (e *sqlite) Apply(ctx context.Context, b futurejobs.Batch) (futurejobs.Applied, error) {
	var net futurejobs.Net
	if err := e.write(ctx, func(w *writer, now time.Time) (err error) {
		net, err = w.apply(b, now)
		return err
	}); err != nil {
		return futurejobs.Applied{}, failed("apply", err)
	}
	return applied(net), nil
}

func (w *writer) apply(b futurejobs.Batch, now time.Time) (net futurejobs.Net, err error) {
	if err := w.ruleSetAt(b.RuleSet); err != nil {
		return net, err
	}
	pending, err := w.pending(refs(b.Effects))
	if err != nil {
		return net, err
	}
	net = futurejobs.Fold(b.Effects, pending, now)
	if err := w.writeNet(net, now); err != nil {
		return net, err
	}
	for _, l := range b.DeadLetters {
		args, err := letter(l, now)
		if err != nil {
			return net, err
		}
		if _, err := w.exec(insertLetter, args...); err != nil {
			return net, err
		}
	}
	n, err := w.exec(advance, b.Last, when(b.LastAt), len(net.Create)+len(net.Born), b.Stream, b.After)
	if err == nil && n == 0 {
		return net, futurejobs.ErrMoved
	}
	return net, err
}

// pending returns the jobs that are waited for.
func (w *writer) pending(refs []futurejobs.Ref) (map[futurejobs.Ref]futurejobs.Job, error) {
	found := make(map[futurejobs.Ref]futurejobs.Job, len(refs))
	for _, ref := range refs {
		var j futurejobs.Job
		ok, err := w.row(jobFields(&j), findOne, ref.Shard, ref.RuleID, verbatim(ref.Key))
		if err != nil {
			return nil, err
		}
		if ok {
			found[ref] = j
		}
	}
	return found, nil
}

// writeNet writes endings before creations, which may be for the same keys.
func (w *writer) writeNet(net futurejobs.Net, now time.Time) error {
	for _, d := range net.End {
		ok, err := w.decide(d, now)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("job %d is not as it was read", d.Job.ID)
		}
	}
	for _, d := range net.Born {
		// A job that began and ended at once takes an id like any other.
		id, err := w.create(d.Job)
		if err != nil {
			return err
		}
		d.Job.ID = id
		if _, err := w.end(d, now); err != nil {
			return err
		}
	}
	for _, j := range net.Create {
		if _, err := w.create(j); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) create(j futurejobs.Job) (id int64, err error) {
	_, err = w.row([]any{&id}, createOne,
		j.Shard, j.RuleID, j.Version, verbatim(j.Key), j.CreatedAt, j.Since, j.FirstCheckAt, j.NextCheckAt,
		body(j.Event), body(j.State))
	return id, err
}
