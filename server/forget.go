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

// forgetter deletes the past of a key from the database and from deadman's own streams. It implements web.Forgetter.
type forgetter struct {
	store   *store.Store
	catalog *rules.Catalog
	streams *bus.Streams
	eraser  *bus.Eraser

	namespace subjects.Namespace
}

func (f *forgetter) eventsStream() string { return f.namespace.Stream(bus.EventsStream) }

// pastOfKey is the past of a key outside of the rows that have it in a column.
type pastOfKey struct {
	alerts  []alerts.Alert
	letters []int64  // ids of dead letters
	events  []uint64 // sequences in the stream of events
	unread  int64    // events that are not read yet
}

// Forget implements web.Forgetter. The streams come first: an alert of the stream that the database does not know would be
// taken for lost by a restore.
func (f *forgetter) Forget(ctx context.Context, r web.ForgetRequest) (web.Forgotten, error) {
	if _, err := f.store.ForgetKey(ctx, store.ForgetRequest{Entity: r.Entity, Key: r.Key, DryRun: true}); err != nil {
		return web.Forgotten{}, err // nothing is erased of a key in use
	}
	past, err := f.find(ctx, r)
	if err != nil {
		return web.Forgotten{}, err
	}
	done := web.Forgotten{AlertMessages: int64(len(past.alerts)), Events: int64(len(past.events)), UnreadEvents: past.unread}
	if !r.DryRun {
		if done.AlertMessages, done.Events, err = f.erase(ctx, past); err != nil {
			return web.Forgotten{}, err
		}
	}
	counted, err := f.store.ForgetKey(ctx, store.ForgetRequest{Entity: r.Entity, Key: r.Key, Letters: past.letters, DryRun: r.DryRun})
	if err == nil && !r.DryRun {
		err = f.store.Compact(ctx)
	}
	done.Jobs, done.Alerts, done.Notifications, done.EarlyResolves = counted.Jobs, counted.Alerts, counted.Notifications, counted.EarlyResolves
	done.Pings, done.PingAddresses, done.Mutes, done.DeadLetters = counted.Pings, counted.PingAddresses, counted.Mutes, counted.DeadLetters
	done.Answers, done.AuditEntries, done.Pseudonym, done.RuleVersions = counted.Answers, counted.Audit, counted.Pseudonym, counted.Rules
	done.OtherStreams = f.otherStreams(r.Entity)
	return done, err
}

func (f *forgetter) find(ctx context.Context, r web.ForgetRequest) (past pastOfKey, err error) {
	if past.alerts, err = f.store.AlertsOfKey(ctx, r.Entity, r.Key); err != nil {
		return past, err
	}
	if past.letters, err = f.letters(ctx, r); err != nil {
		return past, err
	}
	past.events, past.unread, err = f.stored(ctx, r)
	return past, err
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
			has, err := hasValue(l.Event.Data, r.Key), error(nil)
			if !has {
				has, err = f.concerns(l.Event, r)
			}
			if err != nil {
				return nil, err
			}
			if has {
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
func (f *forgetter) concerns(e futurejobs.Event, r web.ForgetRequest) (bool, error) {
	effects, refusals, isWhole := f.catalog.DryMatch(e)
	if slices.ContainsFunc(effects, func(e futurejobs.Effect) bool { return e.Rule.Entity == r.Entity && e.Ref.Key == r.Key }) {
		return true, nil
	}
	if !isWhole {
		return false, errAllowance
	}
	return slices.ContainsFunc(refusals, func(l futurejobs.Refusal) bool { return f.isOf(l.Rule, r.Entity) }) && hasValue(e.Data, r.Key), nil
}

// errAllowance means that not all rules could read an event, so that the events of a key are not known.
var errAllowance = errors.New("the rules of a tenant used up the allowance of their conditions; try again in a minute")

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

// stored returns the events in deadman's own stream that concern the key, and the number of those that are not read yet. They
// are not erased, since a lost event that was not read raises an alert.
func (f *forgetter) stored(ctx context.Context, r web.ForgetRequest) (seqs []uint64, unread int64, err error) {
	info, err := f.streams.Info(ctx, f.eventsStream())
	if errors.Is(err, events.ErrGone) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	read, err := f.readThrough(ctx)
	if err != nil || info.LastSeq == 0 || len(f.subjects()) == 0 {
		return nil, 0, err
	}
	for e, err := range f.streams.Replay(ctx, f.eventsStream(), f.subjects(), time.Time{}, info.LastSeq) {
		if err != nil {
			return nil, 0, err
		}
		switch has, err := f.concerns(e, r); {
		case err != nil:
			return nil, 0, err
		case !has:
		case e.Seq <= read:
			seqs = append(seqs, e.Seq)
		default:
			unread++
		}
	}
	return seqs, unread, nil
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

// readThrough returns the last sequence of the stream of events that all lines have applied.
func (f *forgetter) readThrough(ctx context.Context) (seq uint64, err error) {
	cursors, err := f.store.Cursors(ctx)
	first := true
	for line, c := range cursors {
		if futurejobs.StreamOf(line) == f.eventsStream() && (first || c.LastSeq < seq) {
			seq, first = c.LastSeq, false
		}
	}
	return seq, err
}

// erase deletes the messages of a key from the streams.
func (f *forgetter) erase(ctx context.Context, past pastOfKey) (alertMessages, events int64, err error) {
	for _, a := range past.alerts {
		erased, err := f.eraser.EraseSubject(ctx, f.namespace.Stream(bus.AlertsStream), f.namespace.Subject(a.Subject()))
		if err != nil {
			return alertMessages, events, err
		}
		if erased {
			alertMessages++
		}
	}
	for _, seq := range past.events {
		erased, err := f.eraser.Erase(ctx, f.eventsStream(), seq)
		if err != nil {
			return alertMessages, events, fmt.Errorf("after %d of %d events: %w", events, len(past.events), err)
		}
		if erased {
			events++
		}
	}
	return alertMessages, events, nil
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
