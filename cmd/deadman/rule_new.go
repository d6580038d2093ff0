package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"deadman/rules/document"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"deadman/internal/ruletest"
	"deadman/internal/schedules"
	"deadman/rules"
)

// Names of the schemas next to a rule file and its tests.
const (
	schemaFile     = "deadman-rule.schema.json"
	testSchemaFile = "deadman-rule-test.schema.json"
)

//go:embed rule_new.yaml.tmpl
var newRuleText string

var newRuleTemplate = template.Must(template.New("rule").Funcs(template.FuncMap{"yaml": yamlScalar}).Parse(newRuleText))

// newRule is the data of the template for a new rule file.
type newRule struct {
	Name, Entity           string
	Event, Key, Until      string
	Every, Grace           string   // of a heartbeat
	Schedule, Zone         string   // of a schedule
	Keys                   []string // of a heartbeat or a schedule
	After, Later, Severity string   // Later empty: a single step
	Slot                   string
	File, Schema, Sample   string // for the template's comments
}

// newRuleFlags maps fields of a rule to the flags that set them.
var newRuleFlags = map[string]string{
	"/name": "name", "/entity": "entity", "/trigger/event": "event", "/trigger/key": "key",
	"/trigger/heartbeat/event": "event", "/trigger/heartbeat/key": "key", "/trigger/heartbeat/every": "every", "/trigger/heartbeat/grace": "grace",
	"/trigger/heartbeat/keys": "keys", "/trigger/schedule": "schedule", "/trigger/zone": "zone", "/trigger/keys": "keys",
	"/resolve/event": "until", "/escalate/0/after": "after", "/escalate/0/severity": "severity",
}

func newRuleNewCmd(io *cli) *cobra.Command {
	var r newRule
	cmd := &cobra.Command{
		Use: "new --event SUBJECT | --every DURATION | --schedule CRONTAB", Short: "Generate a rule file and its tests",
		Long: `Generates a rule for an event that another one has to follow, for a signal that must recur
(--every), or for a schedule, and writes it to standard output or to --file. With --file, tests that
pass are written beside it, for deadman rule test. Existing files are not overwritten. Missing names
are derived from the subjects. No node is required.`,
		Example: `  deadman rule new --event orders.created --until orders.shipped --after 3h
  deadman rule new --event orders.created --until orders.shipped --file order-unshipped.yaml
  deadman rule new --every 1d --grace 2h --entity backup --keys photos,mail --file backup-silent.yaml
  deadman rule new --schedule '30 1 * * *' --keys customers --until imports.finished --after 4h`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Every != "" && !cmd.Flags().Changed("after") {
				r.After = "0s"
			}
			return writeNewRule(cmd.Context(), io, r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Event, "event", "", "subject of the trigger event, or of the signal that must recur")
	textFlagVar(flags, &r.Every, "every", "duration", "", "maximum time between two signals: events or pings")
	textFlagVar(flags, &r.Grace, "grace", "duration", "", "tolerance before a missing signal is overdue")
	textFlagVar(flags, &r.Schedule, "schedule", "crontab", "", "crontab, @every DURATION or @at TIME of the trigger")
	textFlagVar(flags, &r.Zone, "zone", "zone", "", "time zone of the schedule (default: UTC)")
	flags.StringSliceVar(&r.Keys, "keys", nil, "keys of the signals that are expected, or of the jobs of each tick")
	flags.StringVar(&r.Until, "until", "", "subject of the event that resolves a job (default: none, jobs end after the last step)")
	textFlagVar(flags, &r.After, "after", "duration", "1h", "time from the trigger to the first alert; for --every from when the signal is overdue, 0s")
	flags.StringVar(&r.Key, "key", "event.id", "expression for the key of an event")
	flags.StringVar(&r.Name, "name", "", "name of the rule (default: derived from the subjects)")
	flags.StringVar(&r.Entity, "entity", "", "entity of the rule, such as order (default: derived from a subject)")
	flags.StringVar(&r.Severity, "severity", string(document.DefaultSeverity), "severity of the first step: info, warning, error or critical")
	textFlagVar(flags, &r.File, "file", "file", "", "output file, which must not exist")
	complete(cmd, "severity", completeWords(severities...))
	complete(cmd, "file", completeFiles("yaml", "yml"))
	return cmd
}

func writeNewRule(ctx context.Context, io *cli, r newRule) error {
	to := r.File
	if err := r.fill(); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := newRuleTemplate.Execute(&text, r); err != nil {
		return err
	}
	documents, err := rules.Parse(text.Bytes(), "")
	if err != nil {
		return r.wrong(err)
	}
	if io.output == asJSON {
		text.Reset()
		if err := writeValue(&text, documents[0]); err != nil {
			return err
		}
	}
	if to == "" {
		_, err := io.out.Write(text.Bytes())
		return err
	}
	tests, err := r.tests(ctx, documents[0])
	if err != nil && !errors.Is(err, ruletest.ErrDraft) {
		return err
	}
	beside := testFileOf(to)
	if _, err := os.Stat(beside); err == nil && tests != nil {
		return usage("%s already exists; choose another --file", beside)
	}
	if err := writeOnce(to, text.Bytes()); err != nil {
		return err
	}
	if tests == nil {
		_, err = fmt.Fprintf(io.err, "wrote rule %s to %s, without tests: %s; write them with events that have such a key\n", sanitize(r.Name), sanitize(to), sanitize(err.Error()))
		return err
	}
	if err := writeOnce(beside, tests); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.err, "wrote rule %s to %s, and its tests to %s\n", sanitize(r.Name), sanitize(to), sanitize(beside))
	return err
}

// fill sets defaults for the missing fields.
func (r *newRule) fill() error {
	switch {
	case r.Event == "" && r.Every == "" && r.Schedule == "":
		return usage("a rule requires a trigger; give --event with the subject of an event, such as orders.created, --every or --schedule")
	case r.Schedule != "" && (r.Event != "" || r.Every != ""):
		return usage("--schedule excludes --event and --every; give one of them")
	case r.Grace != "" && r.Every == "":
		return usage("--grace is for a signal that must recur: give --every, too; for another trigger, --after is the time until the first alert")
	case r.Zone != "" && r.Schedule == "":
		return usage("--zone is the time zone of a schedule: give --schedule, too")
	case r.Schedule != "" && r.Until != "" && len(r.Keys) == 0:
		return usage("--until requires --keys for a schedule: an event resolves the job of its key")
	}
	subject := cmp.Or(r.Event, r.Until)
	first, _, _ := strings.Cut(subject, ".")
	if r.Entity == "" {
		r.Entity = strings.ToLower(strings.TrimSuffix(first, "s"))
		if first == "" || strings.ContainsAny(first, "*>") {
			return usage("no entity can be derived from %s; give it with --entity, such as --entity order", cmp.Or(subject, "the trigger"))
		}
	}
	if r.Name == "" {
		r.Name = r.Entity + "-" + r.suffix()
	}
	r.Slot = document.DefaultSlot.String()
	if after, err := document.ParseDuration(cmp.Or(r.Every, r.After)); err == nil {
		if 4*after < document.DefaultHorizon && !r.restartsWithin(time.Duration(4*after)) {
			r.Later = (4 * after).String()
		}
		if after < 5*document.DefaultSlot {
			r.Slot = "1s"
		}
	}
	if r.File == "" {
		r.File = r.Name + ".yaml"
	}
	r.Schema, r.Sample = schemaFile, sampleEvent(r.Key, "1")
	return nil
}

// restartsWithin reports whether the schedule restarts the job of a key within a time, so that a later step is never due.
func (r *newRule) restartsWithin(d time.Duration) bool {
	if r.Schedule == "" || len(r.Keys) == 0 {
		return false
	}
	s, err := schedules.Parse(r.Schedule, nil, r.Name)
	return err == nil && s.Shortest() > 0 && s.Shortest() <= d // a wrong schedule is reported with the rule
}

// suffix returns the end of the name of the rule.
func (r *newRule) suffix() string {
	switch {
	case r.Every != "":
		return "silent"
	case r.Until != "":
		return "not-" + lastWord(r.Until)
	case r.Schedule != "":
		return "due"
	}
	return lastWord(r.Event)
}

// lastWord returns the last token of a subject that is not a wildcard, in lower case.
func lastWord(subject string) string {
	tokens := strings.Split(subject, ".")
	for i := len(tokens) - 1; i > 0; i-- {
		if !strings.ContainsAny(tokens[i], "*>") {
			return strings.ToLower(tokens[i])
		}
	}
	return "event"
}

// sampleEvent makes up an event for a key such as event.id or event.order.id.
func sampleEvent(key, value string) string {
	path, ok := strings.CutPrefix(key, "event.")
	if !ok || strings.ContainsFunc(path, func(r rune) bool { return r != '.' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }) {
		return fmt.Sprintf(`{"id": %q}`, value)
	}
	names := strings.Split(path, ".")
	sample := strconv.Quote(value)
	for i := len(names) - 1; i >= 0; i-- {
		sample = fmt.Sprintf("{%q: %s}", names[i], sample)
	}
	return sample
}

// wrong maps the problems of a rule to the flags that cause them.
func (r newRule) wrong(err error) error {
	var problems document.Problems
	if !errors.As(err, &problems) {
		return err
	}
	var wrong []error
	for _, problem := range problems {
		flag, known := newRuleFlags[problem.Pointer]
		if !known {
			flag = problem.Field() + " of the rule"
		} else {
			flag = "--" + flag
		}
		wrong = append(wrong, fmt.Errorf("%s: %s", flag, problem.Message))
	}
	return usageError{errors.Join(wrong...)}
}

// yamlScalar formats a text as a YAML scalar, quoted if necessary.
func yamlScalar(s string) (string, error) {
	quoted, err := yaml.MarshalWithOptions(map[string]string{"k": s}, yaml.Flow(true))
	inside := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(quoted)), "{k: "), "}")
	return inside, err
}

// writeOnce creates a file and fails if it exists.
func writeOnce(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s already exists; choose another --file", path)
	}
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(data)
	return err
}

func isFolder(path string) bool {
	info, err := os.Stat(filepath.Clean(path))
	return err == nil && info.IsDir()
}
