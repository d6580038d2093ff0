package futurejobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/internal/store"
	"deadman/rules"
)

// A kept trigger belongs to the version that was current at its arrival, even if the rule was saved before the end
// was read that leaves its job: the first step of version 1 is after 48 hours, and that of version 2 after 24.
func TestStoredTriggerKeepsItsVersionAfterSave(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		at := anHourAgo()
		event := func(subject string, second int, body string) streamEvent {
			return streamEvent{subject, "front", at.Add(time.Duration(second) * time.Second), body}
		}
		opened := func(second int) streamEvent { return event("door.opened", second, "") }
		closed := func(second int) streamEvent { return event("door.closed", second, "") }
		for name, c := range map[string]struct {
			triggers      string
			before, after []streamEvent     // relative to the save
			unread        map[string]uint64 // events from before the save that are read after it
			since         int
			version       int32
			pause         time.Duration
		}{
			"kept before the save":          {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{closed(2)}, nil, 3, 1, 0},
			"the end came before the save":  {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{closed(2)}, map[string]uint64{"B": 1}, 3, 1, 0},
			"kept after the save":           {"A", []streamEvent{opened(1)}, []streamEvent{opened(3), closed(2)}, nil, 3, 2, 0},
			"one kept before and one after": {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{opened(5), closed(2)}, nil, 3, 1, 0},
			"the end after the first":       {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{opened(5), closed(4)}, nil, 5, 2, 0},
			"two ends":                      {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{opened(5), closed(2), closed(4)}, nil, 5, 2, 0},
			"the trigger came before it":    {"A", []streamEvent{opened(1)}, []streamEvent{opened(3), closed(2)}, map[string]uint64{"A": 1}, 3, 1, 0},
			"paused and resumed":            {"A", []streamEvent{opened(1), opened(3)}, []streamEvent{event("door.held", 5, `,"held":true`), event("door.held", 65, `,"held":false`), closed(2)}, nil, 3, 1, time.Minute},
			"paused and kept after it":      {"A", []streamEvent{opened(1)}, []streamEvent{opened(3), event("door.held", 5, `,"held":true`), event("door.held", 65, `,"held":false`), closed(2)}, nil, 3, 2, time.Minute},
			"an older trigger read last":    {"AD", nil, []streamEvent{event("door.opened.A", 5, ""), event("door.opened.D", 1, "")}, map[string]uint64{"D": 1}, 1, 1, 0},
			"an older trigger and its end":  {"AD", nil, []streamEvent{event("door.opened.A", 5, ""), event("door.opened.D", 1, ""), closed(3)}, map[string]uint64{"D": 1}, 5, 2, 0},
		} {
			s := newStreamFixture(t, db, strings.ReplaceAll(name, " ", "-"), "keep", c.triggers, "B", "C")
			for _, h := range c.before {
				s.apply(h)
			}
			unread := make(map[string]uint64)
			for stream, n := range c.unread {
				unread[s.rule+stream] = n
			}
			trigger := "door.opened"
			if len(c.triggers) > 1 {
				trigger += ".*"
			}
			s.save(strings.ReplaceAll(fmt.Sprintf(doorRule, s.rule, trigger, "keep"), "48h", "24h"), unread)
			for _, h := range c.after {
				s.apply(h)
			}
			j := s.job("front")
			if j == nil {
				t.Errorf("%s: no job is pending", name)
				continue
			}
			since, step := at.Add(time.Duration(c.since)*time.Second), map[int32]time.Duration{1: 48 * time.Hour, 2: 24 * time.Hour}[c.version]
			if !j.Since.Equal(since) || j.Version != c.version || !j.NextCheckAt.Equal(since.Add(step+c.pause)) {
				t.Errorf("%s: the job is of version %d, since %v, and is checked at %v; want version %d since %v, %s and a pause of %s later",
					name, j.Version, j.Since, j.NextCheckAt, c.version, since, step, c.pause)
			}
			rule, err := s.catalog.Rule(t.Context(), j.RuleID, j.Version)
			if err != nil || rule.Version != c.version {
				t.Errorf("%s: the job is decided by version %+v: %v", name, rule, err)
			}
		}
	})
}

// fixedBinder is a binder of subjects with known streams.
type fixedBinder struct {
	rules.Binder
	reads []rules.StreamBinding
}

func (b fixedBinder) Bind(context.Context, []string) ([]rules.StreamBinding, error) {
	return b.reads, nil
}

func (b fixedBinder) Routes(context.Context, []string) ([]rules.SubjectRoute, error) { return nil, nil }

// If pending jobs move to a new version, so does the job of a kept trigger: it would be pending if the end had been
// read in order.
func TestStoredTriggerFollowsItsJobToNewVersion(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *store.Store) {
		s, at := newStreamFixture(t, db, "door", "keep", "A", "B", "C"), anHourAgo()
		event := func(subject, key string, second int, body string) streamEvent {
			return streamEvent{subject, key, at.Add(time.Duration(second) * time.Second), body}
		}
		for _, key := range []string{"front", "back"} {
			s.apply(event("door.opened", key, 1, ""), event("door.opened", key, 3, ""))
		}
		s.apply(event("door.held", "back", 4, `,"held":true`))
		var reads []rules.StreamBinding
		for subject, stream := range s.of {
			reads = append(reads, rules.StreamBinding{Subject: subject, Stream: stream, From: s.seq[stream]})
		}
		r := &rules.Registry{Store: s.store, Binder: fixedBinder{reads: reads}, Catalog: s.catalog, Jobs: s.store, Log: slog.New(slog.DiscardHandler)}
		text := strings.ReplaceAll(fmt.Sprintf(doorRule, s.rule, "door.opened", "keep"), "48h", "24h")
		c, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: 1, Pending: true})
		if err != nil || c.Moved != 2 {
			t.Fatalf("%d jobs were moved: %v", c.Moved, err)
		}
		if err := s.catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.apply(event("door.held", "back", 64, `,"held":false`))
		for key, pause := range map[string]time.Duration{"front": 0, "back": time.Minute} {
			s.apply(event("door.closed", key, 2, ""))
			next := at.Add(3*time.Second + 24*time.Hour + pause)
			if j := s.job(key); j == nil || j.Version != 2 || !j.Since.Equal(at.Add(3*time.Second)) || !j.NextCheckAt.Equal(next) {
				t.Errorf("%s: the job is %+v, want one of version 2 since %v that is checked at %v", key, j, at.Add(3*time.Second), next)
			}
		}
	})
}
