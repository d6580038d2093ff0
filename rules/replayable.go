package rules

import (
	"context"
	"errors"
	"fmt"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/internal/calendars"
)

// Replayable is a rule with all that a replay of its streams needs.
type Replayable struct {
	Document  document.Document // enabled
	Version   int32             // 0: not saved
	Calendars calendars.Set
	Reads     []StreamBinding // of the subjects, up to the last event of now
	Unstored  []string        // subjects that no stream stores, or only in part
}

// ErrReplay means that a rule cannot be replayed from streams. The error names the remedy.
var ErrReplay = errors.New("the rule cannot be replayed")

// Replayable returns the rule of a text, or a saved one if the text is nil; version 0 is its newest. The bounds of the caller
// hold for both, so that the reads have only events that the caller may read. It creates no stream. The error is Problems,
// ErrReplay, ErrSubject, futurejobs.ErrNotFound or of the store or the binder.
func (r *Registry) Replayable(ctx context.Context, text []byte, name string, version int32) (Replayable, error) {
	rule, _, err := PreviewRequest{Text: text, Name: name, Version: version}.rule(ctx, r)
	if err != nil {
		return Replayable{}, err
	}
	d := rule.document
	if problems := outOf(d, access.BoundsOf(ctx)); problems != nil {
		return Replayable{}, problems
	}
	if err := replayRefusal(d); err != nil {
		return Replayable{}, err
	}
	out := Replayable{Document: d, Calendars: r.outside().calendars}
	if text == nil {
		out.Version = rule.engine.Version
	}
	if out.Reads, err = r.Binder.Find(ctx, d.Subjects()); err != nil {
		return out, err
	}
	routes, err := r.Binder.Routes(ctx, d.Subjects())
	if err != nil {
		return out, err
	}
	for _, route := range routes {
		if len(route.Streams) == 0 || route.Capture || len(route.Takes) > 0 {
			out.Unstored = append(out.Unstored, route.Subject)
		}
	}
	return out, nil
}

// replayRefusal returns ErrReplay for a rule that streams alone cannot replay.
func replayRefusal(d document.Document) error {
	switch {
	case d.Handler != "":
		return fmt.Errorf("%w: rule %s calls handler %s, which may have effects; replay a copy of the rule with conditions instead", ErrReplay, d.Name, d.Handler)
	case d.Trigger.Heartbeat != nil && d.Trigger.Heartbeat.Event == "":
		return fmt.Errorf("%w: the pings of rule %s came over HTTP and are in no stream; its past is in its history and on its page", ErrReplay, d.Name)
	}
	return nil
}
