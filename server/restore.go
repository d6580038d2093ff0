package server

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// The timing and limits of the comparison of the alert stream and the database.
const (
	compareEvery = 5 * time.Second
	settleWait   = 2 * compareEvery // from the detection of a restore until open alerts are closed: ticks are applied by then
	firstMost    = 10 * time.Second // of the first comparison, for which the start of the node waits
	publishedMax = 2000             // maximum number of this node's alerts looked up in one comparison
	restoreShard = 0                // the shard of the node that writes the mark and closes alerts
)

// alertStream reads the stream of alerts for a comparison.
type alertStream interface {
	Info(ctx context.Context) (events.Info, error)
	Between(ctx context.Context, after, through uint64) iter.Seq2[alerts.Alert, error]
}

// comparison detects that the database went back to an earlier state, through a failover that lost commits or a
// restore: the alert stream then has alerts that the database does not know. It raises an alert. Once the streams are
// read again, it closes the alerts that would otherwise stay open.
//
// A mark in the database holds the sequence of the alert stream up to which the database knows all alerts; the mark
// goes back with the database. The alerts after the mark are looked up
//
//  1. when the node starts, and when another node wrote the mark before;
//  2. after a failed comparison, for example while a standby takes over;
//  3. when the mark is older than one that the node saw;
//  4. when the database does not know an alert that the node published since the last comparison.
//
// A database without a mark is new, or from before the first mark: the whole stream is looked up.
type comparison struct {
	store    *store.Store
	stream   alertStream
	report   restoreReport
	catalog  *rules.Catalog
	owner    *futurejobs.Owner
	now      func() time.Time // the database's time
	keep     time.Duration    // of alerts in the database; 0: for ever
	announce func(context.Context, alerts.SystemAlert) error
	raised   func(alerts.Alert)
	log      *slog.Logger
	status   *periodic.Status

	startCursors map[string]futurejobs.Cursor // of the streams, before this node read events

	seen alerts.Mark // the last one read or written by the node
	own  bool        // written by the node
	sure bool        // the last comparison succeeded

	mu        sync.Mutex
	published []alerts.Alert // by this node since the last comparison: identities only
	restore   *alerts.Restore
	compared  bool   // at least once
	failed    error  // error of the last comparison
	settled   string // the last restore that this node settled; empty: none
}

// learn reads the cursors of the streams and compares for the first time, before the node reads events: an alert that is raised
// again from a read event is known to the database from then on. If that takes longer than firstMost or fails, Run repeats it beside
// the reading.
func (c *comparison) learn(ctx context.Context) (err error) {
	if c.startCursors, err = c.store.Cursors(ctx); err != nil {
		return err
	}
	first, cancel := context.WithTimeout(ctx, firstMost)
	defer cancel()
	if err := c.round(first); ctx.Err() == nil {
		c.note(err)
	}
	return ctx.Err()
}

// Run compares until ctx ends.
func (c *comparison) Run(ctx context.Context) error {
	return c.status.Run(ctx, compareEvery, func(ctx context.Context) error {
		err := c.round(ctx)
		if ctx.Err() == nil {
			c.note(err)
		}
		return err
	})
}

// note records the result of a round.
func (c *comparison) note(err error) {
	if c.sure = err == nil; c.sure {
		c.startCursors = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed, c.restore = err, c.seen.Restore
	c.compared = c.compared || c.sure
}

// round compares once:
//
//  1. It looks up the alerts that the database may not know.
//  2. It records a detected restore, once for all nodes.
//  3. The holder of restoreShard advances the mark, reports a recorded restore and settles it.
func (c *comparison) round(ctx context.Context) error {
	info, err := c.stream.Info(ctx)
	if err != nil {
		return err
	}
	published := c.takePublished()
	mark, err := c.store.Mark(ctx)
	if err != nil {
		return err
	}
	holds := c.owner.Holds(restoreShard)
	mark, err = c.compare(ctx, mark, info.LastSeq, published, holds)
	if err == nil && mark.Round == 0 { // at once: a restore to a state before the first mark would have an unknown time
		mark, err = c.move(ctx, mark, info.LastSeq, nil)
	}
	if err != nil || !holds {
		return err
	}
	if mark, err = c.move(ctx, mark, info.LastSeq, mark.Restore); err != nil || mark.Restore == nil {
		return err
	}
	return c.settle(ctx, mark, info.LastSeq)
}

// compare finds alerts if necessary, and returns the mark with the detected restore.
func (c *comparison) compare(ctx context.Context, mark alerts.Mark, last uint64, published []alerts.Alert, holds bool) (alerts.Mark, error) {
	doubt := !c.sure || mark.Round < c.seen.Round || holds && !(c.own && mark.Round == c.seen.Round)
	if !doubt {
		unknown, err := c.unknown(ctx, published)
		if err != nil {
			return mark, err
		}
		doubt = len(unknown) > 0
	}
	before := c.seen
	back := mark.Round < before.Round && !mark.At.After(before.At) // and no other node has found it yet
	c.see(mark, c.own && mark.Round == c.seen.Round)
	if !doubt {
		return mark, nil
	}
	lost, first, err := c.lost(ctx, mark.Seq, last)
	if err != nil || lost == 0 && !back {
		return mark, err
	}
	if mark.Round == 0 { // the database is from before the first unknown alert
		if mark.At = first; first.IsZero() {
			mark.At = before.At
		}
	}
	return c.found(ctx, mark, last, lost)
}

// lost counts the alerts of a part of the stream that the database does not know, and returns the time of the first
// decision.
func (c *comparison) lost(ctx context.Context, after, through uint64) (n int, first time.Time, err error) {
	var batch []alerts.Alert
	count := func() error {
		unknown, err := c.unknown(ctx, batch)
		for _, a := range unknown {
			if at := alerts.TimeOf(a.ID); first.IsZero() || at.Before(first) {
				first = at
			}
		}
		n, batch = n+len(unknown), batch[:0]
		return err
	}
	for a, err := range c.stream.Between(ctx, after, through) {
		if err != nil {
			return n, first, err
		}
		if batch = append(batch, identity(a)); len(batch) == publishedMax {
			if err := count(); err != nil {
				return n, first, err
			}
		}
	}
	err = count()
	return n, first, err
}

// unknown returns the alerts that the database does not know, except those that retention may have removed.
func (c *comparison) unknown(ctx context.Context, all []alerts.Alert) ([]alerts.Alert, error) {
	now := c.now()
	return c.store.Unknown(ctx, slices.DeleteFunc(all, func(a alerts.Alert) bool {
		keep := c.keepOf(a.Rule)
		return keep > 0 && alerts.TimeOf(a.ID).Before(now.Add(-keep).Add(min(time.Hour, keep/2)))
	}))
}

// keepOf returns the retention of the alerts of a rule; 0: for ever.
func (c *comparison) keepOf(rule string) time.Duration {
	r, err := c.catalog.Newest(rule)
	if err != nil { // it is deleted, or the rule of deadman itself
		return c.keep
	}
	if own := r.Document().Keep; own != nil && own.Alerts > 0 {
		return time.Duration(own.Alerts)
	}
	return c.keep
}

// identity returns the fields by which an alert is looked up.
func identity(a alerts.Alert) alerts.Alert {
	return alerts.Alert{ID: a.ID, Rule: a.Rule, Entity: a.Entity, Key: a.Key}
}

// found records a restore. An unsettled earlier one is merged into it.
func (c *comparison) found(ctx context.Context, mark alerts.Mark, last uint64, lost int) (alerts.Mark, error) {
	now := c.now()
	report, err := c.report.text(ctx, c.startCursors)
	if err != nil {
		return mark, err
	}
	r := alerts.Restore{From: mark.Seq, To: last, Since: mark.At, FoundAt: now, ReadAt: now, Lost: lost, Report: report}
	r = r.Including(mark.Restore)
	if before := mark.Restore; before != nil {
		if err := c.announce(ctx, before.SupersededAlert(r)); err != nil {
			return mark, err
		}
	}
	c.log.Error("the database went back to an earlier state; its alerts are compared with the alert stream",
		"state_of", r.Since, "alerts_unknown", lost, "alerts_after", r.From, "alerts_up_to", r.To, "report", report)
	return c.move(ctx, mark, last, &r)
}

// move replaces the mark, and adopts the current one if another node was faster.
func (c *comparison) move(ctx context.Context, mark alerts.Mark, seq uint64, r *alerts.Restore) (alerts.Mark, error) {
	to, ok, err := c.store.MoveMark(ctx, mark, seq, r)
	if err != nil {
		return mark, err
	}
	if !ok { // another node was faster
		if to, err = c.store.Mark(ctx); err != nil {
			return mark, err
		}
	}
	c.see(to, ok)
	return to, nil
}

func (c *comparison) see(mark alerts.Mark, own bool) { c.seen, c.own = mark, own }

// settle reports a restore and, once all events after the restored state are applied again, handles the alerts that
// were open when the database went back:
//
//  1. An alert that was raised again has the same id, and is known by now.
//  2. An alert of a pending job is returned to the job, and closes with its end.
//  3. An alert of a rule that is newer than the restored state stays open, and is reported.
//  4. Any other is closed, as no job is pending for it.
//
// The alert about the restore stays open until an actor closes it, because what was answered over HTTP is lost.
func (c *comparison) settle(ctx context.Context, mark alerts.Mark, last uint64) error {
	r := *mark.Restore
	if err := c.announce(ctx, r.FiringAlert()); err != nil {
		return err
	}
	if read, err := c.isRead(ctx, r); !read || err != nil {
		return err
	}
	open, err := c.open(ctx, r, last)
	if err != nil {
		return err
	}
	given, closed := 0, 0
	var staying []alerts.Alert
	for _, a := range open {
		closing, stays, err := c.store.TakeBack(ctx, a, r)
		switch {
		case err != nil:
			return err
		case stays:
			staying = append(staying, a)
		case closing == nil:
			given++
		default:
			closed++
			c.raised(*closing)
		}
	}
	part := 0
	for some := range slices.Chunk(staying, alerts.StayingMost) {
		if err := c.announce(ctx, r.StayingAlert(part, some)); err != nil {
			return err
		}
		part++
	}
	c.log.Warn("open alerts that a restored database did not know are dealt with", "state_of", r.Since, "given_back", given, "closed", closed, "stay_open", len(staying))
	c.noteSettled(r.SettledText(given, closed, len(staying)))
	_, err = c.move(ctx, mark, last, nil)
	return err
}

// isRead reports whether all messages received by the streams before the restore was found are applied.
func (c *comparison) isRead(ctx context.Context, r alerts.Restore) (bool, error) {
	if c.now().Sub(r.ReadAt) < settleWait || c.catalog.Revision() == 0 { // without rules no stream is read yet
		return false, nil
	}
	through, err := c.store.ReadThrough(ctx)
	if err != nil {
		return false, err
	}
	for stream := range c.catalog.SubjectsByStream() {
		if !through[stream].Through.After(r.ReadAt) {
			return false, nil
		}
	}
	return true, nil
}

// open returns the alerts of a restore that the database does not know and that no later alert of the stream closes,
// ordered by id.
func (c *comparison) open(ctx context.Context, r alerts.Restore, last uint64) ([]alerts.Alert, error) {
	open := alerts.Open{}
	for a, err := range c.stream.Between(ctx, r.From, r.To) {
		if err != nil {
			return nil, err
		}
		open.Read(a)
	}
	for a, err := range c.stream.Between(ctx, r.To, last) {
		if err != nil {
			return nil, err
		}
		open.Close(a)
	}
	unknown, err := c.unknown(ctx, slices.Collect(maps.Values(open)))
	slices.SortFunc(unknown, func(a, b alerts.Alert) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return unknown, err
}

// publisher wraps a publisher to record its published alerts.
func (c *comparison) publisher(p alerts.Publisher) alerts.Publisher { return notedPublisher{p, c} }

// notePublished records the newest published alerts.
func (c *comparison) notePublished(sent []alerts.Alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range sent {
		c.published = append(c.published, identity(a))
	}
	if over := len(c.published) - 2*publishedMax; over > 0 {
		c.published = slices.Delete(c.published, 0, over+publishedMax)
	}
}

func (c *comparison) takePublished() []alerts.Alert {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.published[max(len(c.published)-publishedMax, 0):]
	c.published = nil
	return taken
}

// noteSettled records that a restore is settled.
func (c *comparison) noteSettled(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = text
}

// condition returns the condition of the comparison: it fails while a restore is unsettled.
func (c *comparison) condition() web.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	fine := "database and alerts stream agree"
	if c.settled != "" {
		fine += "; after a restore " + c.settled
	}
	out := condition("restore", c.failed, fine, "the alerts stream cannot be compared with the database")
	switch r := c.restore; {
	case r != nil:
		out.OK = false
		lacks := ""
		if r.Lost > 0 {
			lacks = fmt.Sprintf(" and lacks %d alerts of the alerts stream", r.Lost)
		}
		out.Detail = fmt.Sprintf("the database was restored to its state of %s%s; its open alerts are compared when the streams are read again", r.Since.UTC().Format(time.RFC3339), lacks)
	case !c.compared && c.failed == nil:
		out.OK, out.Detail = false, "the alerts stream is being compared with the database after the start of the node"
	}
	return out
}
