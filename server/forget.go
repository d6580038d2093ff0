package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/subjects"
	"deadman/rules"
	"deadman/web"
)

// forgetTime is how long a request reads the stream of events before it answers with its progress.
const forgetTime = 20 * time.Second

// forgetter deletes the past of a key from the database and from deadman's own streams. It implements web.Forgetter.
type forgetter struct {
	store   *store.Store
	catalog *rules.Catalog
	streams *bus.Streams
	eraser  *bus.Eraser

	namespace subjects.Namespace
	readTime  time.Duration // of the streams, in one request
}

func (f *forgetter) eventsStream() string { return f.namespace.Stream(bus.EventsStream) }

func (f *forgetter) alertsStream() string { return f.namespace.Stream(bus.AlertsStream) }

// Forget implements web.Forgetter. The streams come first: an alert of the stream that the database does not know would be
// taken for lost by a restore.
func (f *forgetter) Forget(ctx context.Context, r web.ForgetRequest) (web.Forgotten, error) {
	if _, err := f.store.ForgetKey(ctx, store.ForgetRequest{Entity: r.Entity, Key: r.Key, DryRun: true}); err != nil {
		return web.Forgotten{}, err // nothing is erased of a key in use
	}
	done, err := f.forgetEvents(ctx, r)
	if err == nil && done.Done {
		err = f.forgetRest(ctx, r, &done)
	}
	if err != nil && !r.DryRun && done.Events+done.AlertMessages > 0 {
		err = fmt.Errorf("messages of the key that were erased before: %d of the stream of events, %d of that of alerts; repeat the request for the rest: %w",
			done.Events, done.AlertMessages, err)
	}
	return done, err
}

// forgetEvents erases, or counts, the events in deadman's own stream that concern the key. It stops after the limit of the
// request or the time to read. Done means that all are read, and that the request has time for the rest.
func (f *forgetter) forgetEvents(ctx context.Context, r web.ForgetRequest) (done web.Forgotten, err error) {
	done.After, done.Through = r.After, r.Through
	info, err := f.streams.Info(ctx, f.eventsStream())
	if errors.Is(err, events.ErrGone) {
		done.Done = true
		return done, nil
	}
	if err != nil {
		return done, err
	}
	if done.Through == 0 {
		done.Through = info.LastSeq
	}
	read, err := f.readThrough(ctx)
	if err != nil {
		return done, err
	}
	if done.After >= done.Through || len(f.subjects()) == 0 {
		done.Done = true
		return done, nil
	}
	whole, cancel := context.WithTimeout(ctx, f.readTime)
	defer cancel()
	half, cancelHalf := context.WithTimeout(ctx, f.readTime/2)
	defer cancelHalf()
	n := 0
	for e, err := range f.streams.ReplayAfter(ctx, f.eventsStream(), f.subjects(), done.After, done.Through) {
		if err == nil {
			err = f.forgetEvent(ctx, r, e, read, &done)
		}
		if err != nil {
			return done, err
		}
		done.After = e.Seq
		if n++; n == r.Limit || whole.Err() != nil {
			return done, nil
		}
	}
	done.After, done.Done = done.Through, half.Err() == nil
	return done, nil
}

// forgetEvent erases or counts an event if it concerns the key. One that not all lines have read stays: a lost event that was
// not read raises an alert.
func (f *forgetter) forgetEvent(ctx context.Context, r web.ForgetRequest, e futurejobs.Event, read uint64, done *web.Forgotten) error {
	switch {
	case !f.concerns(e, r):
		return nil
	case e.Seq > read:
		done.UnreadEvents++
		return nil
	case r.DryRun:
		done.Events++
		return nil
	}
	erased, err := f.eraser.Erase(ctx, f.eventsStream(), e.Seq)
	if erased {
		done.Events++
	}
	return err
}

// forgetRest erases the alerts of the key from their stream, and deletes the rows.
func (f *forgetter) forgetRest(ctx context.Context, r web.ForgetRequest, done *web.Forgotten) error {
	done.After, done.Through = 0, 0
	letters, err := f.letters(ctx, r)
	if err != nil {
		return err
	}
	if err := f.forgetAlerts(ctx, r, done); err != nil {
		return err
	}
	counted, err := f.store.ForgetKey(ctx, store.ForgetRequest{Entity: r.Entity, Key: r.Key, Letters: letters, DryRun: r.DryRun})
	if err == nil && !r.DryRun {
		err = f.store.Compact(ctx)
	}
	done.Jobs, done.Alerts, done.Notifications, done.EarlyResolves = counted.Jobs, counted.Alerts, counted.Notifications, counted.EarlyResolves
	done.Pings, done.PingAddresses, done.Mutes, done.DeadLetters = counted.Pings, counted.PingAddresses, counted.Mutes, counted.DeadLetters
	done.Answers, done.AuditEntries, done.Pseudonym, done.RuleVersions = counted.Answers, counted.Audit, counted.Pseudonym, counted.Rules
	done.OtherStreams = f.otherStreams(r.Entity)
	return err
}

// forgetAlerts erases or counts the messages of the key's alerts: first of those in the database, then of those that retention
// has deleted there.
func (f *forgetter) forgetAlerts(ctx context.Context, r web.ForgetRequest, done *web.Forgotten) error {
	info, err := f.streams.Info(ctx, f.alertsStream()) // before the list: an alert that is raised from now on is not searched
	if errors.Is(err, events.ErrGone) {
		info, err = events.Info{}, nil
	}
	if err != nil {
		return err
	}
	all, err := f.store.AlertsOfKey(ctx, r.Entity, r.Key)
	if err != nil {
		return err
	}
	for _, a := range all {
		if r.DryRun {
			done.AlertMessages++
			continue
		}
		erased, err := f.eraser.EraseSubject(ctx, f.alertsStream(), f.namespace.Subject(a.Subject()))
		if err != nil {
			return err
		}
		if erased {
			done.AlertMessages++
		}
	}
	return f.forgetPrunedAlerts(ctx, r, all, info.LastSeq, done)
}

// forgetPrunedAlerts erases or counts the messages of the key's alerts up to the sequence number last that are not among those of the
// database. It reads the alerts of the entity's rules for half of the time to read.
func (f *forgetter) forgetPrunedAlerts(ctx context.Context, r web.ForgetRequest, known []alerts.Alert, last uint64, done *web.Forgotten) error {
	if last == 0 {
		return nil
	}
	names, err := f.store.RulesOfEntity(ctx, r.Entity)
	if err != nil {
		return err
	}
	var subjects []string
	for _, name := range names {
		subjects = append(subjects, f.namespace.Subject(alerts.SubjectsOf(name)))
	}
	half, cancel := context.WithTimeout(ctx, f.readTime/2)
	defer cancel()
	for e, err := range f.streams.ReplayAfter(ctx, f.alertsStream(), subjects, 0, last) {
		if err == nil {
			err = f.forgetPrunedAlert(ctx, r, e, known, done)
		}
		if err != nil {
			return err
		}
		if half.Err() != nil {
			done.UnreadAlerts = int64(last - e.Seq) //nolint:gosec // far below the limit
			return nil
		}
	}
	return nil
}

// forgetPrunedAlert erases or counts a message of the stream of alerts if its alert is one of the key and not a known one.
func (f *forgetter) forgetPrunedAlert(ctx context.Context, r web.ForgetRequest, e futurejobs.Event, known []alerts.Alert, done *web.Forgotten) error {
	var a alerts.Alert
	isOfKey := json.Unmarshal(e.Data, &a) == nil && a.Entity == r.Entity && a.Key == r.Key
	switch {
	case !isOfKey || slices.ContainsFunc(known, func(k alerts.Alert) bool { return k.ID == a.ID }):
		return nil
	case r.DryRun:
		done.AlertMessages++
		return nil
	}
	erased, err := f.eraser.Erase(ctx, f.alertsStream(), e.Seq)
	if erased {
		done.AlertMessages++
	}
	return err
}

// letters returns the dead letters of the entity's rules with events of the key: by the key of the rule, or, since the rule
// refused most of them, by any value of their data.
func (f *forgetter) letters(ctx context.Context, r web.ForgetRequest) (ids []int64, err error) {
	of := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := f.store.DeadLetters(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, l := range page.Items {
			if !f.isOf(l.Rule, r.Entity) {
				continue
			}
			if l.Omitted {
				if l, err = f.store.DeadLetter(ctx, l.ID); errors.Is(err, futurejobs.ErrNotFound) {
					continue // deleted meanwhile
				} else if err != nil {
					return nil, err
				}
			}
			if hasValue(l.Event.Data, r.Key) || f.concerns(l.Event, r) {
				ids = append(ids, l.ID)
			}
		}
		if of.Cursor = page.Next; page.Next == "" {
			return ids, nil
		}
	}
}

// isOf reports whether a rule has an entity. A deleted rule may have it, and so may an event that all rules refuse together.
func (f *forgetter) isOf(rule, entity string) bool {
	newest, err := f.catalog.Newest(rule)
	return err != nil || newest.Document().Entity == entity
}

// concerns reports whether an event acts on a job of the key, or a rule of the entity refuses it and it has the key as a value.
func (f *forgetter) concerns(e futurejobs.Event, r web.ForgetRequest) bool {
	effects, refusals := rules.EventSearch{Catalog: f.catalog}.Match(e)
	return slices.ContainsFunc(effects, func(e futurejobs.Effect) bool { return e.Rule.Entity == r.Entity && e.Ref.Key == r.Key }) ||
		slices.ContainsFunc(refusals, func(l futurejobs.Refusal) bool { return f.isOf(l.Rule, r.Entity) }) && hasValue(e.Data, r.Key)
}

// hasValue reports whether JSON has a text or a number equal to a key, at any depth.
func hasValue(data []byte, key string) bool {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a float64 would round the digits of a large number
	var value any
	return decoder.Decode(&value) == nil && holdsValue(value, key)
}

func holdsValue(value any, key string) bool {
	switch v := value.(type) {
	case string:
		return v == key
	case json.Number:
		return v.String() == key
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return holdsValue(v, key) })
	case map[string]any:
		for name := range v {
			if holdsValue(v[name], key) {
				return true
			}
		}
	}
	return false
}

// subjects returns the subjects that rules read from deadman's own stream.
func (f *forgetter) subjects() (all []string) {
	for line, subjects := range f.catalog.SubjectsByStream() {
		if futurejobs.StreamOf(line) == f.eventsStream() {
			all = append(all, subjects...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readThrough returns the last sequence of the stream of events that all lines with rules have applied. The position of a line
// stays where it was when the line lost its last rule.
func (f *forgetter) readThrough(ctx context.Context) (seq uint64, err error) {
	cursors, err := f.store.Cursors(ctx)
	first := true
	for line := range f.catalog.SubjectsByStream() {
		c, isOpen := cursors[line]
		if isOpen && futurejobs.StreamOf(line) == f.eventsStream() && (first || c.LastSeq < seq) {
			seq, first = c.LastSeq, false
		}
	}
	return seq, err
}

// otherStreams returns the streams of others that rules of the entity read. deadman deletes nothing there.
func (f *forgetter) otherStreams(entity string) (names []string) {
	for line := range f.catalog.SubjectsByStream() {
		stream := futurejobs.StreamOf(line)
		if stream != f.eventsStream() && slices.ContainsFunc(f.catalog.RulesReading(line), func(rule string) bool { return f.isOf(rule, entity) }) {
			names = append(names, stream)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
