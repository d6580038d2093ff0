package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Rebind moves the rules to the streams that now store their subjects, and returns how many rules it changed. If no
// subject moved, it queries the broker once and writes nothing. Errors of one rule are returned after the others are
// done; that rule stays unchanged.
//
//  1. A subject that no stream stores any more is captured at once.
//  2. Streams that lost a subject are read to the end of its events before a rule moves to another; so the order of its
//     events is kept.
//  3. Then the new stream is read from its first event that is later than the events of the old one. Copies of those in
//     the new stream are skipped.
//  4. A rule whose bounds were given or taken by its newest version changes its line in each stream, with all versions
//     at once. The store lets the new line continue where the old one is.
func (r *Registry) Rebind(ctx context.Context) (moved int, err error) {
	if err := r.Catalog.Refresh(ctx); err != nil {
		return 0, err
	}
	now := r.Catalog.current.Load()
	routes, err := r.routes(ctx, now)
	if err != nil {
		return 0, wrapErr("rebind", err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(now.names)) {
		changed, err := r.rebind(ctx, ruleRebind{Registry: r, revision: now.revision, rule: now.names[name], routes: routes})
		if errors.Is(err, ErrConflict) {
			continue // another client changes the rule; the next round reads it again
		}
		errs = append(errs, wrapErr("rebind rule "+name, err))
		if changed {
			moved++
		}
	}
	if moved > 0 {
		errs = append(errs, r.Catalog.Refresh(ctx))
	}
	return moved, errors.Join(errs...)
}

// routes returns the routes of all subjects that rules read.
func (r *Registry) routes(ctx context.Context, e *snapshot) (map[string]SubjectRoute, error) {
	wanted := make(map[string]bool)
	for _, v := range e.versions {
		for _, read := range v.saved.Reads {
			wanted[read.Subject] = true
		}
		for _, subject := range v.document.Subjects() {
			wanted[subject] = true
		}
	}
	delete(wanted, "")
	if len(wanted) == 0 {
		return nil, nil
	}
	found, err := r.Binder.Routes(ctx, slices.Sorted(maps.Keys(wanted)))
	routes := make(map[string]SubjectRoute, len(found))
	for _, route := range found {
		routes[route.Subject] = route
	}
	return routes, err
}

// errUnread means that a stream has unread events of a subject that it no longer stores.
var errUnread = errors.New("there is something left to read")

// ruleRebind is the rebinding of one rule.
type ruleRebind struct {
	*Registry
	revision int64
	rule     *rule
	routes   map[string]SubjectRoute
	remarks  []alerts.SystemAlert
}

// rebind changes the reads of a rule, if necessary: first their line, later their streams. It raises its alerts before
// the change, so that they are never lost; a repeated one is a duplicate.
func (r *Registry) rebind(ctx context.Context, b ruleRebind) (changed bool, err error) {
	reads := b.onLines()
	if len(reads) == 0 {
		reads, err = b.onStreams(ctx)
	}
	if len(reads) == 0 {
		return false, err
	}
	for _, remark := range b.remarks {
		if err := r.Announce(ctx, remark); err != nil {
			return false, err
		}
	}
	name := b.rule.versions[0].saved.Name
	if failed := r.Store.Rebind(ctx, name, b.revision, reads); failed != nil {
		return false, failed
	}
	r.Log.Warn("a rule reads its events from other streams now, where its subjects come by", "rule", name, "reads", streamsOf(reads))
	return true, err
}

// onLines returns the reads of versions that are on another line than the bounds of the newest version demand. All
// versions of a rule change their line at once.
func (b *ruleRebind) onLines() map[int32][]StreamBinding {
	reads := make(map[int32][]StreamBinding)
	for _, v := range b.rule.versions {
		if now := onLineOf(b.rule.versions[0].saved.Bounds, v.saved.Reads); !sameReads(now, v.saved.Reads) {
			reads[v.saved.Version] = now
		}
	}
	return reads
}

// onStreams returns the reads of versions with subjects that moved to other streams; none while a stream has unread
// events of a subject that left it.
func (b *ruleRebind) onStreams(ctx context.Context) (map[int32][]StreamBinding, error) {
	reads := make(map[int32][]StreamBinding)
	var errs []error
	for _, v := range b.rule.versions {
		now, err := b.version(ctx, v)
		if errors.Is(err, errUnread) {
			return nil, nil
		}
		if err != nil {
			errs = append(errs, err)
		} else if !sameReads(now, v.saved.Reads) {
			reads[v.saved.Version] = now
		}
	}
	return reads, errors.Join(errs...)
}

// streamsOf returns the streams of the newest of the versions.
func streamsOf(reads map[int32][]StreamBinding) []string {
	var all []string
	for _, read := range reads[slices.Max(slices.Collect(maps.Keys(reads)))] {
		all = append(all, read.Subject+" from "+futurejobs.LineText(read.Stream))
	}
	return all
}

// version returns the reads of a version. New events are for the newest version: an older one is read only to the end
// of its own.
func (b *ruleRebind) version(ctx context.Context, v *version) ([]StreamBinding, error) {
	var all []StreamBinding
	var errs []error
	bySubject := make(map[string][]StreamBinding)
	for _, read := range v.saved.Reads {
		bySubject[read.Subject] = append(bySubject[read.Subject], read)
	}
	subjects := b.rule.versions[0].document.Subjects()
	for _, subject := range slices.Sorted(maps.Keys(bySubject)) {
		now, err := b.subject(ctx, v, subject, bySubject[subject], slices.Contains(subjects, subject))
		all, errs = append(all, now...), append(errs, err)
	}
	return inOrderOf(v.saved.Reads, all), errors.Join(errs...)
}

// inOrderOf sorts reads in their previous order, with new ones last: then an unchanged list needs no write.
func inOrderOf(before, reads []StreamBinding) []StreamBinding {
	place := func(r StreamBinding) int {
		at := slices.IndexFunc(before, func(b StreamBinding) bool { return b.Subject == r.Subject && b.Stream == r.Stream })
		if at < 0 {
			return len(before)
		}
		return at
	}
	slices.SortStableFunc(reads, func(x, y StreamBinding) int { return place(x) - place(y) })
	return reads
}

// subject returns the new reads of one subject; on an error, the present ones.
func (b *ruleRebind) subject(ctx context.Context, v *version, subject string, reads []StreamBinding, subjects bool) ([]StreamBinding, error) {
	route := b.routes[subject]
	if route.Err != nil {
		return reads, route.Err
	}
	if route.Capture && subjects {
		captured, err := b.Binder.Bind(ctx, []string{subject})
		if err != nil {
			return reads, err
		}
		route.Streams = nil
		for _, read := range captured {
			route.Streams = append(route.Streams, read.source())
		}
	}
	stays, left := split(reads, route.Streams)
	m := subjectMove{subject: subject, after: lastOf(reads, v.saved.SavedAt), origins: make(map[string]uint64)}
	for _, read := range left {
		if err := b.drainOld(ctx, read, &m); err != nil {
			return reads, err
		}
	}
	if !subjects {
		return stays, nil
	}
	for _, stream := range route.Streams {
		if slices.ContainsFunc(stays, func(r StreamBinding) bool { return r.source() == stream }) {
			continue
		}
		read, err := b.joinNew(ctx, m, stream)
		if err != nil {
			return reads, err
		}
		stays = append(stays, read)
	}
	if route.Capture && len(left) > 0 {
		b.remarks = append(b.remarks, capturedAlert(m, route.Streams))
	}
	return stays, nil
}

// split separates reads by whether they are of one of the streams.
func split(reads []StreamBinding, streams []string) (stays, left []StreamBinding) {
	for _, read := range reads {
		if slices.Contains(streams, read.source()) {
			stays = append(stays, read)
		} else {
			left = append(left, read)
		}
	}
	return stays, left
}

// lastOf returns the time of the last event before the reads, or instead.
func lastOf(reads []StreamBinding, instead time.Time) (at time.Time) {
	for _, read := range reads {
		at = latest(at, read.At)
	}
	if at.IsZero() {
		return instead
	}
	return at
}

// subjectMove is the move of a subject from streams to others.
type subjectMove struct {
	subject string
	after   time.Time         // the last event that was read
	given   []CopiedFrom      // the progress in the old streams
	origins map[string]uint64 // the last originals of copied events, by stream
}

// drainOld adds a stream that no longer stores the subject to the move. It returns errUnread while the stream has
// unread events.
func (b *ruleRebind) drainOld(ctx context.Context, read StreamBinding, m *subjectMove) error {
	cursor, _, err := b.Jobs.Cursor(ctx, read.Stream)
	if err != nil {
		return err
	}
	rest, err := b.Binder.Pending(ctx, read.source(), read.Subject, max(cursor.LastSeq, read.From))
	if err != nil {
		return err
	}
	other := !cursor.StreamCreatedAt.IsZero() && !cursor.StreamCreatedAt.Equal(rest.CreatedAt)
	switch {
	case rest.Gone || other:
		m.after = latest(m.after, cursor.LastAt)
		b.remarks = append(b.remarks, unboundAlert(read, cursor, b.Now()))
	case rest.Unread:
		return errUnread
	default:
		m.after = latest(m.after, rest.LastAt)
	}
	if rest.CopyOf.Stream != "" && !other {
		m.origins[rest.CopyOf.Stream] = rest.CopyOf.Through
	}
	m.given = append(m.given, CopiedFrom{Stream: read.source(), Through: max(cursor.LastSeq, read.From)})
	return nil
}

// joinNew returns the read of a stream that now stores the subject. If the old stream held copies of this stream's
// events, the last copy determines the start; time does not, since copies came later.
func (b *ruleRebind) joinNew(ctx context.Context, m subjectMove, stream string) (StreamBinding, error) {
	read, err := b.Binder.ReadFrom(ctx, m.subject, stream, m.after)
	if through, copied := m.origins[stream]; copied {
		read.From = through
	}
	read.Given = m.given
	read.Stream = lineOf(b.rule.versions[0].saved.Bounds, stream)
	return read, err
}

// unboundAlert returns the alert for a stream that was deleted or recreated.
func unboundAlert(read StreamBinding, cursor futurejobs.Cursor, now time.Time) alerts.SystemAlert {
	since := latest(cursor.LastAt, time.Time{})
	if since.IsZero() {
		since = latest(read.At, cursor.StreamCreatedAt)
	}
	return alerts.StreamLoss(read.Stream, since, now, "was deleted or replaced")
}

// capturedAlert returns the alert for a subject that no stream stored any more.
func capturedAlert(m subjectMove, by []string) alerts.SystemAlert {
	var left []string
	for _, g := range m.given {
		left = append(left, g.Stream)
	}
	return alerts.SystemAlert{
		Topic: "subject/" + m.subject, Step: "captured", Status: alerts.Firing, Severity: alerts.Warning, Since: m.after, UntilClosed: true,
		Text: fmt.Sprintf("%s does not come by stream %s any more and is captured by %s; what was published before that, after %s, was never seen",
			m.subject, strings.Join(left, ", "), strings.Join(by, ", "), m.after.Format(time.RFC3339Nano)),
	}
}
