package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/spf13/cobra"

	"deadman/rules"
	"deadman/web"
)

func newRulePreviewCmd(io *cli) *cobra.Command {
	v := &previewRun{io: io}
	cmd := &cobra.Command{
		Use: "preview [FILE|-] [--event EVENT]", Short: "Simulate a rule for an event or its schedule and show the timeline",
		Long: `Runs events through the engine in simulated time and shows the timeline of the job: checks, steps,
alert texts and outcome. No alerts are published and no notifications are sent.

With a file, no node is required; --rule selects one of several rules
in the file. Without a file, --rule is a rule of the node. --found sets the result of a lookup for all
checks; without it the node queries the source once.

A rule with a schedule requires no event: the preview shows its next ticks from --at on, with the
slots of their steps, and the job of the first tick. A heartbeat with keys requires no event either:
the preview shows the first key without any ping.

Pings have the subject ping (optional for the first event of a heartbeat without an event) and data
such as {"key": "backup", "kind": "fail"}. The kind expected means that the key is expected from
then on and has never sent a ping.

Formats of times: 15:04, "2026-01-31 15:04", 2026-01-31T15:04:05Z, or +3h after --at.`,
		Example: `  deadman rule preview -f order-unshipped.yaml --event '{"id": "1"}'
  deadman rule preview -f order-unshipped.yaml --event @order.json --then 'orders.shipped={"id": "1"}@+4h'
  deadman rule preview --rule order-unshipped --event '{"id": "1"}' --at 10:05
  deadman rule preview -f import-missing.yaml --at 2026-03-28T12:00:00Z
  deadman rule preview -f backup.yaml --then 'ping={"key": "photos"}@+4h'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && v.file != "" {
				return usage("%s accepts one file, as an argument or with -f; name a rule of the node with --rule", commandName(cmd))
			}
			return nil
		},
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE: func(cmd *cobra.Command, args []string) error {
			v.file = strings.Join(append(args, v.file), "")
			return v.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.VarP(typedText{&v.file, "file"}, "file", "f", "file of the rule, or - for standard input")
	flags.StringVar(&v.rule, "rule", "", "name of the rule")
	textFlagVar(flags, &v.event, "event", "json", "", "body of the trigger event: JSON, @FILE, or -")
	flags.StringVar(&v.subject, "subject", "", "subject of the event (default: the subject of the trigger)")
	textFlagVar(flags, &v.at, "at", "time", "", "time of the event, or start of the schedule (default: now)")
	flags.StringArrayVar(&v.then, "then", nil, "later event, 'SUBJECT=JSON@TIME'; without =JSON the body of the first event; can be repeated")
	textFlagVar(flags, &v.found, "found", "json", "", "result of the lookup: JSON, @FILE, -, or null for no such entity (default: the node queries the source)")
	textFlagVar(flags, &v.until, "until", "time", "", "end of the preview (default: the end of the job)")
	addCalendars(cmd, &v.calendars)
	complete(cmd, "file", completeFiles(ruleEndings...))
	complete(cmd, "event", completeFiles("json"))
	complete(cmd, "found", completeFiles("json"))
	complete(cmd, "rule", completeRule(io))
	return cmd
}

// previewRun is one run of rule preview.
type previewRun struct {
	io                 *cli
	file, rule         string
	event, subject, at string
	found              string
	then               []string
	until, calendars   string
}

func (v *previewRun) run(ctx context.Context) error {
	switch {
	case v.file == "" && v.rule == "":
		return usage("rule preview requires -f FILE, or --rule with the name of a rule of the node")
	case v.file == standardInput && v.event == standardInput:
		return usage("-f and --event cannot both read standard input")
	case v.found == standardInput && (v.file == standardInput || v.event == standardInput):
		return usage("--found cannot read standard input if -f or --event does")
	}
	if v.event == "" {
		if err := v.requireEvent(ctx); err != nil {
			return err
		}
	}
	request, err := v.request()
	if err != nil {
		return err
	}
	preview, err := v.preview(ctx, request)
	if err != nil {
		return err
	}
	if v.io.output == asJSON {
		err = writeValue(v.io.out, preview)
	} else {
		err = printPreview(v.io, preview)
	}
	if err == nil && len(preview.Refusals) > 0 {
		err = unmetPreview.err()
	}
	return err
}

// requireEvent returns an error if the rule's preview needs an event: the rule has neither a schedule nor a heartbeat
// with keys.
func (v *previewRun) requireEvent(ctx context.Context) error {
	d, err := v.targetRule(ctx)
	heartbeat := d.Trigger.Heartbeat
	switch {
	case err != nil:
		return err
	case d.Trigger.Schedule != "" || heartbeat != nil && len(heartbeat.Keys) > 0:
		return nil
	case heartbeat != nil && heartbeat.Event == "":
		return usage(`--event is required; give the ping that creates the job, such as --event '{"key": "backup"}'`)
	}
	return usage(`--event is required; give the event that creates the job, such as --event '{"id": "1"}'`)
}

// targetRule returns the rule to preview.
func (v *previewRun) targetRule(ctx context.Context) (d document.Document, err error) {
	if v.file != "" {
		return v.document()
	}
	c, err := v.io.client()
	if err != nil {
		return d, err
	}
	return getRule(ctx, c, v.rule)
}

func (v *previewRun) preview(ctx context.Context, request rules.PreviewRequest) (rules.Preview, error) {
	if v.file == "" {
		return v.onNode(ctx, request)
	}
	return v.onFile(ctx, request)
}

// request parses the flags. The first of its events creates the job.
func (v *previewRun) request() (request rules.PreviewRequest, err error) {
	first := rules.PreviewEvent{Subject: v.subject, At: v.io.now().UTC().Truncate(time.Second)}
	if first.Data, err = v.io.jsonFlag("event", v.event); err != nil {
		return request, err
	}
	if request.Found, err = v.io.jsonFlag("found", v.found); err != nil {
		return request, err
	}
	if v.at != "" {
		if first.At, err = v.io.instantFlag("at", v.at, v.io.now().Truncate(time.Second)); err != nil {
			return request, err
		}
	}
	var later []rules.PreviewEvent
	for _, then := range v.then {
		e, err := v.later(then, first)
		if err != nil {
			return request, err
		}
		later = append(later, e)
	}
	slices.SortStableFunc(later, func(a, b rules.PreviewEvent) int { return a.At.Compare(b.At) })
	if len(later) > 0 && later[0].At.Before(first.At) {
		return request, usage("--then: the event at %s is before --event at %s; give the earliest event with --event", v.io.exact(later[0].At), v.io.exact(first.At))
	}
	request.Events = append([]rules.PreviewEvent{first}, later...)
	request.Until, err = v.io.instantFlag("until", v.until, first.At)
	return request, err
}

// later parses an event such as 'orders.shipped={"id": "1"}@+3h'.
func (v *previewRun) later(s string, first rules.PreviewEvent) (e rules.PreviewEvent, err error) {
	at := strings.LastIndex(s, "@")
	if at < 0 {
		return e, usage(`--then: %s has no time; the format is 'orders.shipped={"id": "1"}@+3h'`, clip(s, 60))
	}
	if e.At, err = v.io.instantFlag("then", s[at+1:], first.At); err != nil {
		return e, err
	}
	subject, data, has := strings.Cut(s[:at], "=")
	e.Subject, e.Data = subject, first.Data
	if has {
		e.Data = json.RawMessage(data)
	}
	switch {
	case subject == "" || e.At.IsZero():
		return e, usage(`--then: %s has no subject or no time; the format is 'orders.shipped={"id": "1"}@+3h'`, clip(s, 60))
	case !json.Valid(e.Data):
		return e, usage(`--then: %s is not valid JSON; the format is 'orders.shipped={"id": "1"}@+3h'`, clip(data, 60))
	}
	return e, nil
}

// onFile previews a rule of a file without a node.
func (v *previewRun) onFile(ctx context.Context, request rules.PreviewRequest) (none rules.Preview, err error) {
	known, err := readCalendars(v.calendars)
	if err != nil {
		return none, err
	}
	d, err := v.document()
	if err != nil {
		return none, err
	}
	if names := d.CalendarNames(); len(names) > 0 && known == nil {
		return none, usage("rule %s uses calendar %s; give the calendars file with --calendars", d.Name, names[0])
	}
	if request.Text, err = d.Canonical(); err != nil {
		return none, err
	}
	request.SkipReason = "sources are not queried without a node"
	registry := rules.Registry{Calendars: known} // previewing an unsaved rule needs no store
	preview, err := registry.Preview(ctx, request)
	var wrong document.Problems
	if errors.As(err, &wrong) {
		for i := range wrong { // lines refer to the canonical text, not to the file
			wrong[i].File, wrong[i].Line = v.file, 0
		}
		return none, errors.Join(printProblems(v.io, wrong, 1, 1), unmetPreview.err())
	}
	return preview, err
}

// document returns the selected rule of the file.
func (v *previewRun) document() (document.Document, error) {
	if isFolder(v.file) {
		return document.Document{}, usage("%s is a folder; give a file", v.file)
	}
	files, err := ruleFiles([]string{v.file})
	if err != nil {
		return document.Document{}, err
	}
	all, found, err := parseFiles(v.io, files, nil)
	if err != nil {
		return document.Document{}, err
	}
	if len(found) > 0 {
		return document.Document{}, errors.Join(printProblems(v.io, found, len(all), 1), unmetPreview.err())
	}
	var names []string
	for _, r := range all {
		if v.rule == r.Name || (v.rule == "" && len(all) == 1) {
			return r.Document, nil
		}
		names = append(names, r.Name)
	}
	if v.rule == "" {
		return document.Document{}, usage("%s contains several rules; choose one with --rule: %s", files[0].name(), strings.Join(names, ", "))
	}
	return document.Document{}, usage("%s contains no rule %s; %s", files[0].name(), v.rule, suggest(v.rule, names))
}

// onNode previews a rule of the node.
func (v *previewRun) onNode(ctx context.Context, request rules.PreviewRequest) (none rules.Preview, err error) {
	c, err := v.io.client()
	if err != nil {
		return none, err
	}
	events := make([]web.PreviewEvent, len(request.Events))
	for i, e := range request.Events {
		events[i] = web.PreviewEvent{Subject: web.Identifier(e.Subject), At: e.At, Data: e.Data}
	}
	body := web.PreviewRequest{Event: events[0], LaterEvents: events[1:], Until: request.Until, LookupResult: request.Found}
	preview, _, err := call[rules.Preview](ctx, c, http.MethodPost, rulePath(v.rule)+"/preview", nil, body)
	return preview, err
}
