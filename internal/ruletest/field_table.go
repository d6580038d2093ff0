package ruletest

import (
	"github.com/invopop/jsonschema"

	"deadman/alerts"
	"deadman/internal/configfile"
	"deadman/internal/replay"
)

var fileFields = configfile.Table{
	{Name: "rules", Form: configfile.TextsForm(), Text: "Files of the rules, relative to this file. Default: NAME.yaml for NAME.test.yaml."},
	{Name: "calendars", Form: configfile.RawTextForm(), Text: "File of the calendars that the rules use, relative to this file. Default: the file of --calendars."},
	{Name: "tests", Form: configfile.ListForm(testFields.Object(), 0), Required: true, Text: "The tests."},
}

var testFields = configfile.Table{
	{Name: "name", Form: configfile.RawTextForm(), Required: true, Text: "What the rules do in this test. Each test of a file has its own name."},
	{Name: "start", Form: configfile.RawTextForm(), Text: "Start of the test: the rules count as saved then. Default: 2026-03-02T10:00:00Z, a Monday."},
	{Name: "events", Form: configfile.ListForm(eventFields.Object(), 0), Text: "Events and pings, played in the order of their times."},
	{Name: "lookups", Form: replay.LookupsForm(momentForm()), Text: "Answers of sources to lookups, as in a file of replay --lookups. The times in from are those of the test."},
	{Name: "until", Form: momentForm(), Text: "End of the test. Default: the end of all jobs. Required for a rule with a schedule or a heartbeat."},
	{Name: "partial", Form: configfile.BoolForm(), Text: "If true, further alerts, outcomes and dead letters are allowed between the expected ones. Default: false."},
	{Name: "alerts", Form: configfile.ListForm(alertFields.Object(), 0), Text: "All alerts, in the order in which they are raised. An empty list: the rules are silent."},
	{Name: "outcomes", Form: configfile.ListForm(outcomeFields.Object(), 0), Text: "The outcome of each job, in the order of their ends; then the jobs that are pending at the end of the test."},
	{Name: "dead_letters", Form: configfile.ListForm(letterFields.Object(), 0), Text: "Events that a rule refuses. Default: none, so that a refused event fails the test."},
}

var eventFields = configfile.Table{
	{Name: "at", Form: momentForm(), Required: true, Text: "Time of the event: a duration since the start, or a date."},
	{Name: "subject", Form: configfile.RawTextForm(), Text: "Subject of the event."},
	{Name: "data", Form: configfile.AnyForm(), Text: "Body of the event: any value, as JSON."},
	{Name: "ping", Form: configfile.RawTextForm(), Text: "Key of a heartbeat that sends a ping, in place of subject and data."},
	{Name: "rule", Form: configfile.RawTextForm(), Text: "Rule of the ping. Default: the only rule with a heartbeat."},
	{Name: "kind", Form: configfile.WordForm(pingKinds...), Text: "Kind of the ping. Default: success."},
	{Name: "exit", Form: configfile.NumberForm(0, 255), Text: "Exit status that the ping reports."},
	{Name: "run", Form: configfile.RawTextForm(), Text: "Run that the ping belongs to."},
	{Name: "body", Form: configfile.RawTextForm(), Text: "Further text of the ping."},
}

var alertFields = configfile.Table{
	{Name: "at", Form: momentForm(), Text: "Time of the alert: the slot of its check, or the time of the event that resolves it."},
	{Name: "rule", Form: configfile.RawTextForm(), Text: "Name of the rule."},
	{Name: "key", Form: configfile.RawTextForm(), Text: "Key of the job."},
	{Name: "step", Form: configfile.RawTextForm(), Text: "Name of the step."},
	{Name: "status", Form: configfile.WordForm(alerts.Statuses...), Text: "Status of the alert."},
	{Name: "severity", Form: configfile.WordForm(alerts.Severities...), Text: "Severity of the alert."},
	{Name: "text", Form: configfile.RawTextForm(), Text: "Text of the alert."},
	{Name: "contains", Form: configfile.RawTextForm(), Text: "Part of the text of the alert."},
	{Name: "labels", Form: configfile.EntriesForm(configfile.RawTextForm(), 0), Text: "Some of the labels of the alert."},
	{Name: "skipped_steps", Form: configfile.TextsForm(), Text: "Steps that were due at the same check and are skipped."},
}

var outcomeFields = configfile.Table{
	{Name: "at", Form: momentForm(), Text: "Time of the end of the job. A pending job has none."},
	{Name: "rule", Form: configfile.RawTextForm(), Text: "Name of the rule."},
	{Name: "key", Form: configfile.RawTextForm(), Text: "Key of the job."},
	{Name: "outcome", Form: configfile.RawTextForm(), Text: "Outcome of the job: resolved, cleared, exhausted, the outcome of a resolve (as), or pending."},
	{Name: "reason", Form: configfile.RawTextForm(), Text: "Part of the reason of the outcome."},
}

var letterFields = configfile.Table{
	{Name: "at", Form: momentForm(), Text: "Time of the event."},
	{Name: "rule", Form: configfile.RawTextForm(), Text: "Name of the rule that refuses it."},
	{Name: "subject", Form: configfile.RawTextForm(), Text: "Subject of the event."},
	{Name: "reason", Form: configfile.RawTextForm(), Text: "Part of the reason."},
}

// momentForm is the form of a time: a duration since the start, or a date.
func momentForm() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{configfile.RawTextForm(), {Type: "integer", Enum: []any{0}}}}
}

// Schema returns the JSON Schema (2020-12) of a file of tests, for editors.
func Schema() ([]byte, error) {
	return configfile.Schema(fileFields.Object(), "rule-test", "Tests of deadman rules")
}
