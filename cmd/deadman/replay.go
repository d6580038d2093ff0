package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/internal/replay"
	"deadman/internal/timezones"
	"deadman/rules/document"
)

func newReplayCmd(io *cli) *cobra.Command {
	v := &replayRun{io: io}
	cmd := &cobra.Command{
		Use: "replay -f RULES --events FILE|- | --stream NAME", Short: "Run rules over past events and show the alerts they would have raised",
		Long: `Runs rules over past events in virtual time, without a node, and prints each alert and a table of
the rules: jobs, outcomes, alerts by step, and quantiles of the time from the start of a job to its
resolution. The rules count as saved at --since. The replay ends at --until, else with the last event of
a file, or now with --stream; jobs that are pending then are counted as pending. The same input gives the
same output.

Input is JSON lines, {"subject": "orders.created", "time": "2026-01-31T10:00:00Z", "data": {"id": "1"}},
or CloudEvents in JSON, whose type is the subject. With --column it is a CSV table with a header: a row
becomes an event for each mapped column with a time. The body has the columns of the row as texts,
without mapped times later than the event. With --stream it is a stream of JetStream, from --since on up to
the last message at the start; messages have the times at which the stream stored them. The replay
does not change the stream.

--against compares with other rules: those of a file or folder, or a rule of the node, NAME or
NAME@VERSION. Both replay the same events; the output is which alerts come, go and move. An alert moves
if its time, severity, status or text differs.

--suggest computes the time of each step from the share of jobs on which it should alert. It learns from the
first two thirds of the history, and shows the share that the last third would have had.

--lookups answers the lookups of rules: a file with past answers of each source, or the events that
contain them. Rules with another lookup, or with a handler, are refused.`,
		Example: `  deadman replay -f order-unshipped.yaml --events orders.jsonl
  deadman replay -f rules/ --events orders.csv --column orders.created=purchased_at --column orders.shipped=shipped_at
  deadman replay -f rules/ --stream DEADMAN_EVENTS --since 7d
  deadman replay -f draft.yaml --against order-unshipped@3 --events orders.jsonl
  deadman replay -f rules/ --suggest 5% --suggest lost=1% --events orders.jsonl
  zcat events.jsonl.gz | deadman replay -f rules/ --events - -o json`,
		Args: exactly(), Annotations: map[string]string{csvOutput: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error { return v.runUntilInterrupted(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&v.files, "file", "f", nil, "file or folder of rules; can be repeated")
	textFlagVar(flags, &v.events, "events", "file", "", "file of the events, or - for standard input")
	flags.StringArrayVar(&v.columns, "column", nil, "SUBJECT=COLUMN, a column of a CSV table with the times of events; can be repeated")
	textFlagVar(flags, &v.zone, "zone", "zone", "UTC", "time zone of CSV times without an offset")
	textFlagVar(flags, &v.since, "since", "time", "", "start of the replay, such as 7d (7 days ago) or 2026-01-31; earlier events are left out (default: the first event)")
	textFlagVar(flags, &v.until, "until", "time", "", "end of the replay, such as now, -1h or 2026-01-31; later events are left out (default: the last event; with --stream now)")
	textFlagVar(flags, &v.disorder, "max-disorder", "duration", "1m", "maximum age of a JSON line or a message relative to the newest one before it")
	textFlagVar(flags, &v.report, "report", "file", "", "write a page of HTML with the alerts over time and the time that jobs took, beside the steps")
	flags.BoolVar(&v.summary, "summary", false, "print the table of the rules only")
	textFlagVar(flags, &v.lookups, "lookups", "file", "", "file with the past answers of sources to the lookups of rules")
	textFlagVar(flags, &v.old, "against", "file|name", "", "file or folder of rules, or NAME or NAME@VERSION of the node, to compare the alerts with")
	addURL(flags, io)
	flags.StringArrayVar(&v.suggest, "suggest", nil, "RATE or STEP=RATE, the share of jobs on which a step should alert, such as 1%: suggest its time; can be repeated")
	textFlagVar(flags, &v.stream.name, "stream", "name", "", "stream of JetStream with the events, instead of --events")
	v.stream.addFlags(flags)
	addCalendars(cmd, &v.calendars)
	flags.VarP(&io.output, "output", "o", "output format: text, json or csv")
	complete(cmd, "output", completeOutput)
	complete(cmd, "file", completeFiles(ruleEndings...))
	complete(cmd, "report", completeFiles("html"))
	complete(cmd, "lookups", completeFiles("yaml", "yml"))
	complete(cmd, "events", completeFiles("jsonl", "ndjson", "json", "csv"))
	return cmd
}

// replayRun is one run of replay.
type replayRun struct {
	io *cli

	files, columns []string
	events, zone   string
	since, until   string
	disorder       string
	calendars      string
	lookups        string
	old            string // the rules to compare with
	suggest        []string
	stream         streamInput
	report         string
	summary        bool

	from, to time.Time // of since and until; zero: open
	skipped  int       // events before from
	later    bool      // an event is after to
	wanted   []replay.Wanted
	replay   *replay.Replay
	before   *replay.Replay  // of the rules to compare with; nil: none
	past     *replay.Summary // its summary
	compared *replay.Comparison
	names    []string // of all compared rules
	output   replayOutput
	progress progress
}

// runUntilInterrupted is run, with an error without the place of the event if the user interrupts it.
func (v *replayRun) runUntilInterrupted(ctx context.Context) error {
	err := v.run(ctx)
	if interrupted := ctx.Err(); err != nil && interrupted != nil {
		return interrupted
	}
	return err
}

func (v *replayRun) run(ctx context.Context) (err error) {
	switch {
	case len(v.files) == 0:
		return usage("replay requires rules; name their file or folder with -f")
	case v.events == "" && v.stream.name == "":
		return usage("replay requires events; name their file with --events, - for standard input, or a stream with --stream")
	case v.events != "" && v.stream.name != "", v.stream.name != "" && len(v.columns) > 0:
		return usage("--stream excludes --events and --column; keep one input")
	}
	if v.wanted, err = wantedRates(v.suggest); err != nil {
		return err
	}
	if len(v.wanted) > 0 && v.old != "" && v.io.output == asCSV {
		return usage("-o csv prints one table; leave out --against or --suggest")
	}
	if v.from, err = v.io.sinceFlag("since", v.since); err != nil {
		return err
	}
	if v.to, err = v.io.instantFlag("until", v.until, v.io.now()); err != nil {
		return err
	}
	if !v.to.IsZero() && v.to.Before(v.from) {
		return usage("--until %s is before --since %s", v.io.exact(v.to), v.io.exact(v.from))
	}
	report, err := v.createReport()
	if err != nil {
		return err
	}
	defer report.discard()
	events, done, err := v.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	out := bufio.NewWriter(v.io.out)
	v.output = newReplayOutput(v.io, out, v)
	s, err := v.play(ctx, events)
	if err != nil {
		return err
	}
	if err := v.output.end(s); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := report.write(s); err != nil {
		return err
	}
	return printRefusals(v.io, s, v.past)
}

// open opens the events. The caller calls done.
func (v *replayRun) open(ctx context.Context) (events replay.Reader, done func(), err error) {
	if v.stream.name != "" {
		bound, err := v.bound()
		if err != nil {
			return nil, nil, err
		}
		messages, done, err := v.stream.open(ctx, v.io, v.from, v.to)
		return replay.NewSorted(messages, bound), done, err
	}
	file := io.NopCloser(v.io.input)
	if v.events != standardInput {
		if file, err = os.Open(v.events); err != nil {
			return nil, nil, usageError{err}
		}
	}
	events, err = v.reader(file)
	return events, func() { file.Close() }, err
}

// bound returns how much older than an earlier event an event may be.
func (v *replayRun) bound() (time.Duration, error) {
	bound, err := document.ParseDuration(v.disorder)
	if err != nil {
		return 0, usage("--max-disorder: %w", err)
	}
	return time.Duration(bound), nil
}

// reader returns a reader of the events: of a CSV table if columns are mapped, otherwise of JSON lines.
func (v *replayRun) reader(from io.Reader) (replay.Reader, error) {
	if len(v.columns) == 0 {
		if strings.HasSuffix(v.events, ".csv") {
			return nil, usage("%s is a CSV table; map its columns with times to subjects, as in --column orders.created=created_at", v.events)
		}
		bound, err := v.bound()
		return replay.NewSorted(replay.NewJSONLines(from), bound), err
	}
	zone, err := timezones.ParseOrUTC(v.zone)
	if err != nil {
		return nil, usage("--zone %w", err)
	}
	columns := make([]replay.TimeColumn, len(v.columns))
	for i, text := range v.columns {
		subject, column, ok := strings.Cut(text, "=")
		if !ok || subject == "" || column == "" {
			return nil, usage("--column: %s is not SUBJECT=COLUMN; write orders.created=created_at", clip(text, 60))
		}
		columns[i] = replay.TimeColumn{Subject: subject, Column: column}
	}
	events, err := replay.NewCSV(from, columns, zone)
	if errors.Is(err, replay.ErrEmpty) {
		return nil, usage("%s has no events: %w", v.inputName(), err)
	}
	return events, err
}

// inputName returns the name of the file of the events, for an error.
func (v *replayRun) inputName() string {
	if v.events == standardInput {
		return "standard input"
	}
	return v.events
}

// begin reads the rules, and creates the replay.
func (v *replayRun) begin(ctx context.Context, from time.Time) error {
	known, err := readCalendars(v.calendars)
	if err != nil {
		return err
	}
	answers, err := readLookups(v.lookups)
	if err != nil {
		return err
	}
	documents, err := v.documents(v.files, known)
	if err != nil {
		return err
	}
	if v.replay, err = replay.New(ctx, documents, known, answers, from); err != nil {
		return err
	}
	v.replay.Raise = v.output.alert
	if len(v.wanted) > 0 {
		v.replay.RecordLives()
	}
	if v.old != "" {
		return v.compare(ctx, from, documents, known, answers)
	}
	return nil
}

// documents reads the rules of files and folders.
func (v *replayRun) documents(paths []string, known calendars.Set) ([]document.Document, error) {
	files, err := ruleFiles(paths)
	if err != nil {
		return nil, err
	}
	all, problems, err := parseChecking(v.io, files, known, func([]byte, string) error { return nil })
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if used := calendarsOf(all); known == nil && len(used) > 0 {
		return nil, usage("the rules use the calendars %s; name their file with --calendars", strings.Join(used, ", "))
	}
	documents := make([]document.Document, len(all))
	for i, r := range all {
		documents[i] = r.Document
	}
	return documents, nil
}

// readLookups reads the answers of sources; nil without a file.
func readLookups(path string) (*replay.Lookups, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readSmall(path, configfile.MaxSize)
	if err != nil {
		return nil, usageError{err}
	}
	return replay.ParseLookups(data, path)
}

// play plays the events of the range.
func (v *replayRun) play(ctx context.Context, events replay.Reader) (*replay.Summary, error) {
	v.progress = progress{io: v.io}
	defer v.progress.clear()
	last := v.from
	for {
		e, place, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return v.finish(ctx, last)
		case err != nil || ctx.Err() != nil:
			return nil, cmp.Or(err, ctx.Err())
		case e.Time.Before(v.from):
			v.skipped++
			continue
		case !v.to.IsZero() && e.Time.After(v.to):
			v.later = true
			return v.finish(ctx, last)
		}
		if v.replay == nil {
			if v.from.IsZero() {
				v.from = e.Time
			}
			if err := v.begin(ctx, v.from); err != nil {
				return nil, err
			}
		}
		for _, r := range v.replays() {
			if err := r.Event(ctx, e); err != nil {
				return nil, fmt.Errorf("%s: %w", place, withRemedy(err))
			}
		}
		last = e.Time
		v.progress.show(last)
	}
}

// withRemedy adds the remedy to the error of an event.
func withRemedy(err error) error {
	if errors.Is(err, replay.ErrGap) {
		return fmt.Errorf("%w; correct the time of the event, or choose another --since or --until", err)
	}
	return err
}

// finish plays up to the end of the range, or of the last event.
func (v *replayRun) finish(ctx context.Context, last time.Time) (*replay.Summary, error) {
	if v.replay == nil {
		if v.stream.name != "" {
			return nil, v.stream.noneWithin(v.io, v.from, v.to)
		}
		return nil, v.noEvents()
	}
	switch {
	case !v.to.IsZero():
		last = v.to
	case v.stream.openedAt.After(last): // all of its events until then are known
		last = v.stream.openedAt
	}
	s, err := v.replay.Finish(ctx, last)
	if errors.Is(err, replay.ErrGap) {
		return nil, usage("--until: %w; choose an earlier time", err)
	}
	if err == nil && len(v.wanted) > 0 {
		err = v.replay.Suggest(v.wanted)
	}
	if errors.Is(err, replay.ErrStep) {
		err = usage("--suggest: %w", err)
	}
	if err != nil || v.before == nil {
		return s, err
	}
	if v.past, err = v.before.Finish(ctx, last); err != nil {
		return nil, err
	}
	s.Against = v.compared.Result(v.names)
	return s, nil
}

// noEvents returns the error of a range without events.
func (v *replayRun) noEvents() error {
	name := v.inputName()
	switch {
	case v.skipped > 0 && v.later:
		return usage("%s has no events from --since %s to --until %s", name, v.io.exact(v.from), v.io.exact(v.to))
	case v.skipped > 0:
		return usage("all events of %s are before --since %s", name, v.io.exact(v.from))
	case v.later:
		return usage("all events of %s are after --until %s", name, v.io.exact(v.to))
	}
	return usage("%s has no events", name)
}

// replays returns the replays of the events.
func (v *replayRun) replays() []*replay.Replay {
	if v.before == nil {
		return []*replay.Replay{v.replay}
	}
	return []*replay.Replay{v.replay, v.before}
}
