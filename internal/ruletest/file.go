// Package ruletest runs the tests of rules: files of YAML with events at their times and the alerts that the rules have to
// raise. The engine plays the events in virtual time, without a node.
package ruletest

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/configfile"
	"deadman/internal/replay"
	"deadman/internal/subjects"
	"deadman/rules"
)

// DefaultStart is the start of a test without one, a Monday.
var DefaultStart = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// File is a file of tests.
type File struct {
	Path      string
	Rules     []string // files of the rules
	Calendars string   // file of the calendars; empty: none
	Tests     []Test
}

// Test is one test.
type Test struct {
	Name   string
	Line   int
	Start  time.Time
	Until  time.Time // zero: the end of all jobs
	Events []Event

	Lookups *replay.Lookups // answers of sources; nil: none

	Partial     bool // further alerts and outcomes are allowed
	Alerts      []Expectation
	Outcomes    []Expectation
	DeadLetters []Expectation
	expects     map[string]bool // the lists that the file has

	dates bool // its author writes times as dates
}

// Event is an event of a test, or a ping.
type Event struct {
	Line    int
	At      time.Time
	Subject string // empty: a ping
	Data    json.RawMessage

	Rule string // of a ping: the rule; empty: the only one with a heartbeat
	Ping rules.ReceivedHeartbeat
}

// Expectation is an expected alert, the expected end of a job, or an expected dead letter. Columns that it does not have
// are not compared.
type Expectation struct {
	Line    int
	At      time.Time // zero: not compared
	Columns map[string]string
}

// Read reads a file of tests. The error is configfile.Problems.
func Read(data []byte, path string) (File, error) {
	f := File{Path: path}
	found := false
	err := configfile.Read(data, path, func(v configfile.Value) {
		found = true
		fields := v.In(fileFields)
		for _, name := range fields["rules"].Texts() {
			f.Rules = append(f.Rules, beside(path, name))
		}
		f.Calendars = fields["calendars"].Path()
		names := make(map[string]bool)
		tests := fields["tests"].Require(`write the tests, each with a name, events and alerts`)
		for _, one := range tests.List("test") {
			t := readTest(one)
			if names[t.Name] && t.Name != "" {
				one.Problem("another test is named %q; give each test its own name", t.Name)
			}
			names[t.Name] = true
			f.Tests = append(f.Tests, t)
		}
		if tests.Empty() {
			tests.Problem("the file has no test; write one, or remove the file")
		}
	})
	if err == nil && !found {
		err = configfile.Problems{{File: path, Line: 1, Column: 1, Message: "the file has no test; write tests: with a list"}}
	}
	if len(f.Rules) == 0 {
		f.Rules = []string{strings.TrimSuffix(path, rules.TestSuffix) + ".yaml"}
	}
	return f, err
}

// beside returns a path relative to the folder of a file.
func beside(file, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

func readTest(v configfile.Value) Test {
	fields := v.In(testFields)
	t := Test{
		Line: v.Line(), Name: fields["name"].Require("write a sentence that says what the rule does").Text(),
		Start: DefaultStart, expects: make(map[string]bool),
	}
	if start := fields["start"]; start.Present() {
		t.Start = readDate(start)
	}
	if partial := fields["partial"]; partial.Present() {
		t.Partial = partial.Bool()
	}
	if until := fields["until"]; until.Present() {
		t.Until = t.instant(until)
	}
	if lookups := fields["lookups"]; lookups.Present() {
		t.Lookups = replay.ReadLookups(lookups, t.instant)
	}
	for _, e := range fields["events"].List("event") {
		t.Events = append(t.Events, t.readEvent(e))
	}
	slices.SortStableFunc(t.Events, func(a, b Event) int { return a.At.Compare(b.At) })
	for _, list := range []struct {
		name string
		to   *[]Expectation
		of   configfile.Table
	}{{"alerts", &t.Alerts, alertFields}, {"outcomes", &t.Outcomes, outcomeFields}, {"dead_letters", &t.DeadLetters, letterFields}} {
		value := fields[list.name]
		t.expects[list.name] = value.Present()
		for _, one := range value.List("entry") {
			*list.to = append(*list.to, t.readExpectation(one, list.of))
		}
		if t.Partial && value.Empty() {
			value.Problem("partial allows any other entry, so that an empty list expects nothing; remove the list, or partial")
		}
	}
	for _, list := range [][]Expectation{t.Alerts, t.Outcomes, t.DeadLetters} {
		for _, x := range list {
			if !x.At.IsZero() {
				x.Columns["at"] = t.when(x.At) // all times are read, so that their form is known
			}
		}
	}
	if !t.expects["alerts"] && !t.expects["outcomes"] && !t.expects["dead_letters"] && !v.HasProblem() {
		v.Problem("the test expects nothing; write alerts: [] if the rules have to be silent, or the alerts or outcomes that it expects")
	}
	return t
}

// readEvent reads an event or a ping.
func (t *Test) readEvent(v configfile.Value) Event {
	fields := v.In(eventFields)
	e := Event{Line: v.Line(), At: t.instant(fields["at"].Require("write when it comes, such as at: 30m")), Data: fields["data"].JSON()}
	subject, ping := fields["subject"], fields["ping"]
	switch {
	case subject.Present() == ping.Present() && !v.HasProblem():
		v.Problem("an event has a subject, or it is a ping of a key; write subject: orders.created, or ping: backup")
	case subject.Present():
		e.Subject = subject.Text()
		if err := subjects.Check(e.Subject); err != nil && e.Subject != "" {
			subject.Problem("%v", err)
		}
		for _, name := range []string{"rule", "kind", "exit", "run", "body"} {
			fields[name].Problem("only a ping has a %s; an event has data", name)
		}
	default:
		fields["data"].Problem("a ping has no data; write body, or kind, exit and run")
		e.Rule = fields["rule"].Text()
		e.Ping = rules.ReceivedHeartbeat{Key: ping.Text(), At: e.At, Kind: rules.Success, Run: fields["run"].Text(), Body: fields["body"].Text()}
		if kind := fields["kind"]; kind.Present() {
			e.Ping.Kind = readWord(kind, "a kind of a ping", pingKinds)
		}
		if exit := fields["exit"]; exit.Present() {
			n := readStatus(exit)
			e.Ping.Exit = &n
		}
	}
	if !t.Until.IsZero() && e.At.After(t.Until) && !fields["at"].HasProblem() {
		fields["at"].Problem("the event comes after the end of the test, until: %s; raise until", t.when(t.Until))
	}
	return e
}

// readStatus reads an exit status.
func readStatus(v configfile.Value) int {
	if string(v.JSON()) == "0" {
		return 0
	}
	return v.Number(1, 255)
}

func readWord[T ~string](v configfile.Value, noun string, words []T) T {
	word := T(v.Text())
	if word != "" && !slices.Contains(words, word) {
		v.Problem("%s", configfile.NotOneOf(noun, word, words))
	}
	return word
}

// readExpectation reads the columns of an expected alert, outcome or dead letter.
func (t *Test) readExpectation(v configfile.Value, table configfile.Table) Expectation {
	fields := v.In(table)
	x := Expectation{Line: v.Line(), Columns: make(map[string]string)}
	for _, f := range table {
		value := fields[f.Name]
		if !value.Present() {
			continue
		}
		switch f.Name {
		case "at":
			x.At = t.instant(value)
			x.Columns["at"] = ""
			if !t.Until.IsZero() && x.At.After(t.Until) && !value.HasProblem() {
				value.Problem("the test ends before, until: %s; raise until", t.when(t.Until))
			}
		case "labels":
			for _, label := range value.Entries("a value for each label") {
				text, ok := label.RawText()
				if !ok {
					label.Problem("expected text, not %s; put it in quotes", label.Kind())
				}
				x.Columns["label "+label.Name] = text
			}
		case "skipped_steps":
			x.Columns["skipped_steps"] = strings.Join(value.Texts(), ", ")
		default:
			x.Columns[f.Name] = readColumn(value)
		}
	}
	if len(x.Columns) == 0 && !v.HasProblem() {
		v.Problem("the entry expects nothing; write some of %s", strings.Join(table.Names(), ", "))
	}
	return x
}

func readColumn(v configfile.Value) string {
	switch v.Name {
	case "status":
		return string(readWord(v, "a status", alerts.Statuses))
	case "severity":
		return string(readWord(v, "a severity", alerts.Severities))
	}
	text, ok := v.RawText()
	if !ok {
		v.Problem("expected text, not %s; put it in quotes", v.Kind())
	}
	return text
}

// instant reads a time of the test: a duration since its start, or a date.
func (t *Test) instant(v configfile.Value) time.Time {
	text, ok := v.RawText()
	switch {
	case ok && strings.Contains(text, "T"):
		t.dates = true
		return readDate(v)
	default:
		return t.Start.Add(v.Duration(0, maxTest))
	}
}

// readDate reads a date with its time.
func readDate(v configfile.Value) time.Time {
	text := v.Text()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		v.Problem("%q is not a time; write one such as 2026-03-02T13:00:00Z", text)
	}
	return at.UTC()
}

// maxTest bounds the virtual time of a test.
const maxTest = 10 * 365 * 24 * time.Hour

var pingKinds = []rules.Signal{rules.Success, rules.Begun, rules.Failure, rules.Log}
