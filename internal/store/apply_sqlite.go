package store

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/failpoints"
)

const (
	findOne   = `SELECT ` + jobColumns + ` FROM future_job f WHERE f.shard = $1 AND f.rule_id = $2 AND f.key = $3`
	anyEarly  = `SELECT 1 FROM early LIMIT 1`
	recallOne = `SELECT ` + earlyColumns + ` FROM early e WHERE e.shard = $1 AND e.rule_id = $2 AND e.key = $3`
)

// sqliteEffects applies batches of effects.
type sqliteEffects struct {
	*sqliteFile
	prefetchPolicy
}

// Apply implements futurejobs.EffectStore. SQLite's single writer holds all jobs locked.
func (e *sqliteEffects) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	return applyUnlessRepeated(ctx, e.read, b, func() (futurejobs.ApplyResult, error) { return e.apply(ctx, b) })
}

func (e *sqliteEffects) apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	letters := e.holdLetters(b)
	b.DeadLetters = letters.keep(b.DeadLetters)
	net, err := e.applyOnce(ctx, b, e.prefetchPolicy.refsToRead(b.Effects))
	if errors.Is(err, errConcurrentCreate) {
		net, err = e.applyOnce(ctx, b, e.prefetchPolicy.allRefs(b.Effects))
	}
	if err != nil {
		letters.giveBack()
		return futurejobs.ApplyResult{}, wrapErr("apply", undone(err))
	}
	net.Use()
	return applied(b, net), nil
}

// applyOnce applies a batch that reads the jobs of toRead first.
func (e *sqliteEffects) applyOnce(ctx context.Context, b futurejobs.EffectBatch, toRead []futurejobs.Ref) (net futurejobs.FoldResult, err error) {
	letters := e.holdLetters(b)
	err = e.write(ctx, func(w *writer, now time.Time) (err error) {
		net, err = batchWriter{w}.apply(ctx, &e.prefetchPolicy, b, toRead, letters, now)
		failpoints.Point("apply.commit")
		return err
	})
	if err != nil {
		net.Release()
		letters.giveBack()
	}
	return net, err
}

// batchWriter applies one batch in a transaction.
type batchWriter struct{ *writer }

func (w batchWriter) apply(ctx context.Context, c *prefetchPolicy, b futurejobs.EffectBatch, toRead []futurejobs.Ref, letters *letterHold, now time.Time) (net futurejobs.FoldResult, err error) {
	if err := w.evaluated(b); err != nil {
		return net, err
	}
	if err := w.checkCursors(b.ReadTo); err != nil {
		return net, err
	}
	known, err := w.knownOf(b, toRead, c.early(b))
	if err != nil {
		return net, err
	}
	if b.FailIfDue && futurejobs.RestartsDueJob(b.Effects, known, now) {
		return net, futurejobs.ErrJobDue
	}
	net = futurejobs.FoldWithin(c.bounds(letters), b.Effects, known, now)
	if overtaken(net, toRead) {
		return net, errConcurrentCreate
	}
	letters.trim(net.DeadLetters)
	if err := (netWriter{decisionWriter(w)}).writeNet(net, now); err != nil {
		return net, err
	}
	if err := w.writeLetters(ctx, b, net, now); err != nil {
		return net, err
	}
	lines, err := auditOf(ctx, b, net, now)
	if err != nil {
		return net, err
	}
	for _, line := range lines {
		if _, err := w.exec(insertAudit, line...); err != nil {
			return net, err
		}
	}
	if b.RequestID != "" {
		kept, err := outcomeOf(applied(b, net))
		if err != nil {
			return net, err
		}
		n, err := w.exec(keepOutcome, kept, escape(b.RequestID))
		if err == nil && n == 0 {
			err = access.ErrRunning
		}
		if err != nil {
			return net, err
		}
	}
	return net, w.advance(b, net, now)
}

// advance moves the cursor of a batch, and records its tick.
func (w batchWriter) advance(b futurejobs.EffectBatch, net futurejobs.FoldResult, now time.Time) error {
	created := len(net.Create) + len(net.StartedAndEnded)
	if b.Stream == "" && created == 0 {
		return nil // a manual change, without a job to count
	}
	n, err := w.exec(advance, b.Last, when(b.LastAt), created, b.Stream, b.After, b.Lost)
	if err == nil && n == 0 {
		err = futurejobs.ErrCursorMoved
	}
	if err == nil && b.Tick != nil {
		_, err = w.exec(insertTick, tickRow(*b.Tick, now)...)
	}
	return err
}

// evaluated returns ErrRulesChanged unless the rules that a batch depends on are unchanged since their evaluation.
func (w batchWriter) evaluated(b futurejobs.EffectBatch) error {
	if !b.OfReaders() {
		moved, err := w.changedRules(b.RestsOn(), ruleUnchanged, b.RuleSet)
		if err == nil && len(moved) > 0 {
			err = futurejobs.ErrRulesChanged
		}
		return err
	}
	var one int
	changed, err := w.row([]any{&one}, readChanged, b.Stream, b.RuleSet)
	if err == nil && changed {
		err = futurejobs.ErrRulesChanged
	}
	return err
}

// checkCursors returns ErrCursorMoved unless the cursors of streams are at their sequences.
func (w batchWriter) checkCursors(streams map[string]uint64) error {
	for stream, seq := range streams {
		var one int
		ok, err := w.row([]any{&one}, `SELECT 1 FROM event_cursor WHERE stream = $1 AND last_seq = $2`, stream, seq)
		if err == nil && !ok {
			err = futurejobs.ErrCursorMoved
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w batchWriter) writeLetters(ctx context.Context, b futurejobs.EffectBatch, net futurejobs.FoldResult, now time.Time) error {
	letters, tried, err := letterWrites(ctx, b, net, now)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if _, err := w.exec(l.text, l.args...); err != nil {
			return err
		}
	}
	if b.Letter == nil {
		return nil
	}
	n, err := w.exec(tried.text, tried.args...)
	if err == nil && n == 0 {
		return futurejobs.ErrNotFound
	}
	return err
}

// knownOf reads the jobs to look up and their early events.
func (w batchWriter) knownOf(b futurejobs.EffectBatch, toRead, early []futurejobs.Ref) (known futurejobs.FoldInput, err error) {
	if known.Pending, err = w.pending(toRead, measuring(b)); err != nil {
		return known, err
	}
	known.Early, err = w.early(early)
	return known, err
}

// pending returns the pending jobs among refs.
func (w batchWriter) pending(refs []futurejobs.Ref, size *measure) (map[futurejobs.Ref]futurejobs.Job, error) {
	found := make(map[futurejobs.Ref]futurejobs.Job, len(refs))
	for _, ref := range refs {
		var j futurejobs.Job
		ok, err := w.row(jobFields(&j), findOne, ref.Shard, ref.RuleID, escapedText(ref.Key))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if err := size.add(&j); err != nil {
			return nil, err
		}
		found[ref] = j
	}
	return found, nil
}

// early returns the early events of refs. Usually the table is empty.
func (w batchWriter) early(refs []futurejobs.Ref) (map[futurejobs.Ref]futurejobs.EarlyEvent, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var one int
	if some, err := w.row([]any{&one}, anyEarly); err != nil || !some {
		return nil, err
	}
	found := make(map[futurejobs.Ref]futurejobs.EarlyEvent)
	for _, ref := range refs {
		var e futurejobs.EarlyEvent
		ok, err := w.row(earlyFields(&e), recallOne, ref.Shard, ref.RuleID, escapedText(ref.Key))
		if err != nil {
			return nil, err
		}
		if ok {
			found[ref] = e
		}
	}
	return found, nil
}
