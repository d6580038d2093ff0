package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/rules"
)

func (p *cli) previewCommand() *cobra.Command {
	v := &previewing{p: p}
	cmd := &cobra.Command{
		Use: "preview -f FILE|- [--event EVENT]", Short: "Show what a rule would do because of an event or its schedule, and when",
		Long: `Plays an event, and others after it, through the engine itself in a time of its own, and
shows what a rule would do: which looks, which steps, which texts, and what ends the wait.
Nobody is told. A rule of a file needs no node; with --rule alone it is the one that the node
has. With -f, --rule chooses one of several in the file. What a lookup would find is said with
--found, as the same at every look; without it the node asks its source, once.

A rule with a schedule needs no event: the preview shows its next ticks from --at on, with the
slots of their steps, and follows what the first of them begins. Neither does a heartbeat with
keys: the first of them never reports. Pings have the subject ping, which may be left out for the
first of a heartbeat without an event, and are such as {"key": "backup", "kind": "fail"}; of the
kind expected, the key is waited for from then on and has never reported.

Times are as in 15:04, "2026-01-31 15:04", 2026-01-31T15:04:05Z, or +3h from --at.`,
		Example: `  deadman rule preview -f order-unshipped.yaml --event '{"id": "1"}'
  deadman rule preview -f order-unshipped.yaml --event @order.json --then 'orders.shipped={"id": "1"}@+4h'
  deadman rule preview --rule order-unshipped --event '{"id": "1"}' --at 10:05
  deadman rule preview -f import-missing.yaml --at 2026-03-28T12:00:00Z
  deadman rule preview -f backup.yaml --then 'ping={"key": "photos"}@+4h'`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&v.file, "file", "f", "", "the file of the rule, or - for the standard input")
	flags.StringVar(&v.rule, "rule", "", "the name of the rule")
	flags.StringVar(&v.event, "event", "", "the event that begins the wait: JSON, @FILE, or -")
	flags.StringVar(&v.subject, "subject", "", "its subject (default: what the trigger listens to)")
	flags.StringVar(&v.at, "at", "", "when it comes, or from when a schedule ticks (default: now)")
	flags.StringArrayVar(&v.then, "then", nil, "what comes later, as 'SUBJECT=JSON@TIME'; without =JSON it is the first event again; more than one may be given")
	flags.StringVar(&v.found, "found", "", "what the lookup finds: JSON, @FILE, -, or null for no such entity (default: the node asks)")
	flags.StringVar(&v.until, "until", "", "when the preview ends (default: when the wait does)")
	addCalendars(cmd, &v.calendars)
	complete(cmd, "file", completeFiles(ruleEndings...))
	complete(cmd, "event", completeFiles("json"))
	complete(cmd, "found", completeFiles("json"))
	complete(cmd, "rule", p.completeRule)
	return cmd
}

// previewing is one run of rule preview.
type previewing struct {
	p                  *cli
	file, rule         string
	event, subject, at string
	found              string
	then               []string
	until, calendars   string
}

// previewAsk is the body of a preview request.
type previewAsk struct {
	Event rules.PreviewEvent   `json:"event"`
	Then  []rules.PreviewEvent `json:"then,omitempty"`
	Until time.Time            `json:"until,omitzero"`
	Found json.RawMessage      `json:"found,omitempty"`
}

func (v *previewing) run(ctx context.Context) error {
	switch {
	case v.file == "" && v.rule == "":
		return usage("deadman rule preview takes -f and a file, or --rule and the name of a rule that the node has")
	case v.file == standardInput && v.event == standardInput:
		return usage("-f and --event cannot both be the standard input")
	case v.found == standardInput && (v.file == standardInput || v.event == standardInput):
		return usage("--found cannot be the standard input where -f or --event is")
	}
	if v.event == "" {
		if err := v.eventless(ctx); err != nil {
			return err
		}
	}
	ask, err := v.ask()
	if err != nil {
		return err
	}
	preview, err := v.preview(ctx, ask)
	if err != nil {
		return err
	}
	if v.p.output == asJSON {
		err = writeValue(v.p.out, preview)
	} else {
		err = v.p.showPreview(preview)
	}
	if err == nil && len(preview.Refusals) > 0 {
		err = silentError{exitCondition}
	}
	return err
}

// eventless returns an error if the rule's preview needs an event: the rule has neither a schedule nor a heartbeat
// with keys.
func (v *previewing) eventless(ctx context.Context) error {
	d, err := v.asked(ctx)
	beats := d.Trigger.Heartbeat
	switch {
	case err != nil:
		return err
	case d.Trigger.Schedule != "" || beats != nil && len(beats.Keys) > 0:
		return nil
	case beats != nil && beats.Event == "":
		return usage(`--event is missing: the ping that begins the wait, such as --event '{"key": "backup"}'`)
	}
	return usage(`--event is missing: the event that begins the wait, such as --event '{"id": "1"}'`)
}

// asked returns the rule to preview.
func (v *previewing) asked(ctx context.Context) (d rules.Document, err error) {
	if v.file != "" {
		return v.document()
	}
	c, err := v.p.client()
	if err != nil {
		return d, err
	}
	return c.rule(ctx, v.rule)
}

func (v *previewing) preview(ctx context.Context, ask previewAsk) (rules.Preview, error) {
	if v.file == "" {
		return v.onServer(ctx, ask)
	}
	return v.locally(ctx, ask)
}

func (v *previewing) ask() (ask previewAsk, err error) {
	first := &ask.Event
	first.Subject, first.At = v.subject, v.p.now().UTC().Truncate(time.Second)
	if v.event != "" {
		if first.Data, err = v.p.jsonFlag("event", v.event); err != nil {
			return ask, err
		}
	}
	if v.found != "" {
		if ask.Found, err = v.p.jsonFlag("found", v.found); err != nil {
			return ask, err
		}
	}
	if v.at != "" {
		if first.At, err = v.p.instantFlag("at", v.at, v.p.now().Truncate(time.Second)); err != nil {
			return ask, err
		}
	}
	for _, then := range v.then {
		e, err := v.later(then, *first)
		if err != nil {
			return ask, err
		}
		ask.Then = append(ask.Then, e)
	}
	slices.SortStableFunc(ask.Then, func(a, b rules.PreviewEvent) int { return a.At.Compare(b.At) })
	if len(ask.Then) > 0 && ask.Then[0].At.Before(first.At) {
		return ask, usage("--then: an event at %s is before the first one, at %s; give that one to --event", v.p.exact(ask.Then[0].At), v.p.exact(first.At))
	}
	ask.Until, err = v.p.instantFlag("until", v.until, first.At)
	return ask, err
}

// later parses an event such as 'orders.shipped={"id": "1"}@+3h'.
func (v *previewing) later(s string, first rules.PreviewEvent) (e rules.PreviewEvent, err error) {
	at := strings.LastIndex(s, "@")
	if at < 0 {
		return e, usage(`--then: %s does not say when; write it as 'orders.shipped={"id": "1"}@+3h'`, clip(s, 60))
	}
	if e.At, err = v.p.instantFlag("then", s[at+1:], first.At); err != nil {
		return e, err
	}
	subject, data, has := strings.Cut(s[:at], "=")
	e.Subject, e.Data = subject, first.Data
	if has {
		e.Data = json.RawMessage(data)
	}
	switch {
	case subject == "" || e.At.IsZero():
		return e, usage(`--then: %s has no subject, or no time; write it as 'orders.shipped={"id": "1"}@+3h'`, clip(s, 60))
	case !json.Valid(e.Data):
		return e, usage(`--then: %s is no JSON; write it as 'orders.shipped={"id": "1"}@+3h'`, clip(data, 60))
	}
	return e, nil
}

// locally previews a rule of a file without a node.
func (v *previewing) locally(ctx context.Context, ask previewAsk) (none rules.Preview, err error) {
	known, err := readCalendars(v.calendars)
	if err != nil {
		return none, err
	}
	document, err := v.document()
	if err != nil {
		return none, err
	}
	if name := calendarOf(document); name != "" && known == nil {
		return none, usage("rule %s counts by the calendar %s; name the file that says when it is open with --calendars", document.Name, name)
	}
	text, err := document.Canonical()
	if err != nil {
		return none, err
	}
	registry := rules.Registry{Calendars: known} // previewing an unsaved rule needs no store
	preview, err := registry.Preview(ctx, rules.PreviewRequest{
		Text: text, Events: append([]rules.PreviewEvent{ask.Event}, ask.Then...), Until: ask.Until,
		Found: ask.Found, Unasked: "without a node no source is asked",
	})
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		for i := range wrong { // lines refer to the canonical text, not to the file
			wrong[i].File, wrong[i].Line = v.file, 0
		}
		return none, errors.Join(v.p.showProblems(wrong, 1, 1), silentError{exitCondition})
	}
	return preview, err
}

// document returns the selected rule of the file.
func (v *previewing) document() (rules.Document, error) {
	if isFolder(v.file) {
		return rules.Document{}, usage("%s is a folder; name one file", v.file)
	}
	files, err := ruleFiles([]string{v.file})
	if err != nil {
		return rules.Document{}, err
	}
	all, found, err := v.p.parseFiles(files, nil)
	if err != nil {
		return rules.Document{}, err
	}
	if len(found) > 0 {
		return rules.Document{}, errors.Join(v.p.showProblems(found, len(all), 1), silentError{exitCondition})
	}
	var names []string
	for _, r := range all {
		if v.rule == r.Name || (v.rule == "" && len(all) == 1) {
			return r.Document, nil
		}
		names = append(names, r.Name)
	}
	if v.rule == "" {
		return rules.Document{}, usage("%s has several rules; choose one with --rule: %s", files[0].name(), strings.Join(names, ", "))
	}
	return rules.Document{}, usage("%s has no rule %s; %s", files[0].name(), v.rule, suggest(v.rule, names))
}

// calendarOf returns the first calendar of a rule, or an empty string.
func calendarOf(d rules.Document) string {
	for _, s := range d.Escalate {
		if name := cmp.Or(s.Of, s.Within); name != "" {
			return name
		}
	}
	return ""
}

// onServer previews a rule of the node.
func (v *previewing) onServer(ctx context.Context, ask previewAsk) (none rules.Preview, err error) {
	c, err := v.p.client()
	if err != nil {
		return none, err
	}
	preview, _, err := tell[rules.Preview](ctx, c, http.MethodPost, rulePath(v.rule)+"/preview", nil, ask)
	return preview, err
}
