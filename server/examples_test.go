package server_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	gocmp "github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
	"deadman/rules"
)

var (
	rewrite   = flag.Bool("rewrite", false, "write the timelines of pages and examples as they come out")
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// leastExamples is the minimum number of examples.
const leastExamples = 10

// example is the folder of an example.
type example struct {
	dir   string
	rules map[string]string // the texts of its files, by path
	known calendars.Set
	given timeline
}

// TestVirtualExamples plays the events of each example through previews and through the whole engine. The alerts and
// outcomes must be exactly the expected ones, of all its rules and keys.
func TestVirtualExamples(t *testing.T) {
	t.Parallel()
	pages := glob(t, "../examples/*", "README.md")
	if len(pages) < leastExamples {
		t.Fatalf("%d examples, expected %d or more", len(pages), leastExamples)
	}
	index := read(t, "../examples/README.md")
	for _, page := range pages {
		dir := filepath.Dir(page)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if !strings.Contains(index, "("+filepath.Base(dir)+")") {
				t.Error("../examples/README.md does not name it")
			}
			e := newNode(t, dir)
			e.checkPreviews(t)
			e.checkEngine(t)
			e.checkCoverage(t)
		})
	}
}

// newNode reads an example: its rules, its calendars, its events.
func newNode(t *testing.T, dir string) example {
	t.Helper()
	e := example{dir: dir, rules: make(map[string]string), known: calendars.Set{}}
	for _, file := range glob(t, dir, "*.calendars") {
		known, err := calendars.Parse([]byte(read(t, file)), file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(e.known, known)
	}
	for _, file := range slices.DeleteFunc(glob(t, dir, "*.yaml"), rules.IsTestFile) {
		e.rules[file] = read(t, file)
		if _, err := rules.ParseAgainst([]byte(e.rules[file]), file, e.known); err != nil {
			t.Fatal(err)
		}
	}
	for _, event := range records[rules.PreviewEvent](t, filepath.Join(dir, "events.jsonl")) {
		e.given = append(e.given, line{event.At, kindEvent, event.Subject + " " + string(event.Data)})
	}
	if len(e.rules) == 0 || len(e.given) == 0 {
		t.Fatalf("%s has %d rules and %d events", dir, len(e.rules), len(e.given))
	}
	return e
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// records reads a file of JSON lines. It rejects unknown fields.
func records[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	for text := range strings.Lines(read(t, file)) {
		var one T
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("%s: %v in %s", file, err, text)
		}
		all = append(all, one)
	}
	return all
}

// checkPreviews compares the timelines in the README of an example with previews of its events.
func (e example) checkPreviews(t *testing.T) {
	t.Helper()
	page := filepath.Join(e.dir, "README.md")
	shown := 0
	rewritten := timelines.ReplaceAllStringFunc(read(t, page), func(block string) string {
		shown++
		file := filepath.Join(e.dir, timelines.FindStringSubmatch(block)[1])
		tl := previewTimeline(t, e.rules[file], e.known, e.given)
		return fmt.Sprintf("```timeline %s\n%s```", filepath.Base(file), tl)
	})
	if shown == 0 {
		t.Errorf("%s shows no timeline", page)
	}
	compareFile(t, page, rewritten)
}

// expected is an expected alert or the end of a job.
type expected struct {
	At           time.Time         `json:"at"`
	Rule         string            `json:"rule"`
	Key          string            `json:"key"`
	Status       string            `json:"status,omitempty"`
	Severity     string            `json:"severity,omitempty"`
	Step         string            `json:"step,omitempty"`
	SkippedSteps []string          `json:"skipped_steps,omitempty"`
	Text         string            `json:"text,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Outcome      string            `json:"outcome,omitempty"` // the job ends
}

// checkEngine compares the expectations with the results of the whole engine.
func (e example) checkEngine(t *testing.T) {
	t.Helper()
	var got []expected
	all := slices.Collect(maps.Values(e.rules))
	playVirtual(t, strings.Join(all, "\n---\n"), e.known, e.given, func(v *virtual) { got = v.expected() })

	file := filepath.Join(e.dir, "expected.jsonl")
	if *rewrite {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		for _, x := range got {
			if err := encoder.Encode(x); err != nil {
				t.Fatal(err)
			}
		}
		compareFile(t, file, b.String())
		return
	}
	want := records[expected](t, file)
	if len(want) == 0 {
		t.Errorf("%s expects nothing", file)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// checkCoverage checks that the example is meaningful: one key raises alerts, and another never does.
func (e example) checkCoverage(t *testing.T) {
	t.Helper()
	ended, reported := make(map[string]bool), make(map[string]bool)
	for _, x := range records[expected](t, filepath.Join(e.dir, "expected.jsonl")) {
		ended[x.Key] = ended[x.Key] || x.Outcome != ""
		reported[x.Key] = reported[x.Key] || x.Text != ""
	}
	for _, want := range []bool{true, false} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(ended)), func(key string) bool { return ended[key] && reported[key] == want }) {
			t.Errorf("%s has no key that people hear of (%t) and whose wait ends", e.dir, want)
		}
	}
}

// expected returns all alerts and ended jobs.
func (v *virtual) expected() (all []expected) {
	for _, a := range v.alerts() {
		all = append(all, expected{
			At: a.DecidedAt.Truncate(time.Second), Rule: a.Rule, Key: a.Key, Status: string(a.Status), Severity: string(a.Severity),
			Step: a.Step, SkippedSteps: a.SkippedSteps, Text: a.Text, Labels: a.Labels,
		})
	}
	for _, e := range v.ended() {
		all = append(all, expected{At: e.EndedAt.Truncate(time.Second), Rule: e.Rule, Key: e.Key, Outcome: string(e.Outcome)})
	}
	slices.SortStableFunc(all, func(a, b expected) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Rule, b.Rule)) })
	return all
}

// The blocks of a page: a timeline with the file of its rule, a rule with its timeline, a rule with its errors, and
// calendars.
var (
	timelines     = regexp.MustCompile("(?s)```timeline ?([a-z-]*\\.?[a-z]*)\n(.*?)```")
	shown         = regexp.MustCompile("(?s)```yaml\n([^`]*?)```\n+```timeline\n(.*?)```")
	refused       = regexp.MustCompile("(?s)```yaml refused\n([^`]*?)```\n+```problems\n(.*?)```")
	calendarBlock = regexp.MustCompile("(?s)```yaml calendars\n(.*?)```")
)

var topField = regexp.MustCompile(`^([a-z_]+):`)

// rulePages returns the pages of the reference about rules with their texts. The first page shows the rule that
// completes the blocks of all pages.
func rulePages(t *testing.T) (pages []string, texts map[string]string) {
	t.Helper()
	pages, err := filepath.Glob("../docs/reference/rule*.md")
	if err != nil {
		t.Fatal(err)
	}
	const first = "../docs/reference/rules.md"
	if !slices.Contains(pages, first) {
		t.Fatalf("%s is not among %v", first, pages)
	}
	pages = append([]string{first}, slices.DeleteFunc(pages, func(page string) bool { return page == first })...)
	texts = make(map[string]string)
	for _, page := range pages {
		texts[page] = read(t, page)
	}
	return pages, texts
}

// TestVirtualRulesPages plays the timelines of the reference, each with the rule above it, through
// previews and through the whole engine.
func TestVirtualRulesPages(t *testing.T) {
	t.Parallel()
	pages, texts := rulePages(t)
	known, err := calendars.Parse([]byte(calendarsOf(t, strings.Join(slices.Collect(maps.Values(texts)), "\n"))), "calendars")
	if err != nil {
		t.Fatal(err)
	}
	first := fieldsOf(yamlBlock.FindStringSubmatch(texts[pages[0]])[1])
	played := 0
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			played += playPage(t, page, texts[page], first, known)
		})
	}
	if played == 0 {
		t.Error("no page shows a timeline")
	}
}

// playPage plays the timelines of a page and returns their number. first has the fields that complete a rule.
func playPage(t *testing.T, page, text string, first map[string]string, known calendars.Set) (played int) {
	t.Helper()
	rewritten := shown.ReplaceAllStringFunc(text, func(both string) string {
		m := shown.FindStringSubmatch(both)
		played++
		rule := whole(m[1], first)
		given := readTimeline(t, m[2]).inputs()
		received := playAlerts(t, rule, known, given)
		got := given.merge(received) // a preview has no downtimes and no changing sources
		_, steady := given.found()
		if steady && !slices.ContainsFunc(given, func(l line) bool { return l.kind == kindDown || l.kind == kindAck }) {
			got = previewTimeline(t, rule, known, given)
		}
		if diff := gocmp.Diff(got.alertLines().String(), received.String()); diff != "" {
			t.Errorf("preview and engine differ (-preview +engine):\n%s\n%s", diff, both)
		}
		return strings.Replace(both, "```timeline\n"+m[2], "```timeline\n"+got.String(), 1)
	})
	if all := strings.Count(text, "```timeline"); played != all {
		t.Errorf("%d of %d timelines stand below a rule", played, all)
	}
	compareFile(t, page, rewritten)
	return played
}

// TestRulesPagesRefuse compares the errors shown in the reference with those of its invalid rules.
func TestRulesPagesRefuse(t *testing.T) {
	pages, texts := rulePages(t)
	found := 0
	for _, page := range pages {
		text, here := texts[page], 0
		rewritten := refused.ReplaceAllStringFunc(text, func(both string) string {
			m := refused.FindStringSubmatch(both)
			here++
			_, err := rules.Parse([]byte(m[1]), "rule.yaml")
			var problems document.Problems
			if !errors.As(err, &problems) {
				t.Errorf("%s: not refused: %v\n%s", page, err, m[1])
				return both
			}
			return strings.Replace(both, "```problems\n"+m[2], "```problems\n"+problems.Error()+"\n", 1)
		})
		if all := strings.Count(text, "```problems"); here != all {
			t.Errorf("%s: %d of %d lists of problems stand below a rule", page, here, all)
		}
		found += here
		compareFile(t, page, rewritten)
	}
	if found == 0 {
		t.Error("no page shows a list of problems")
	}
}

// calendarsOf returns the calendars shown in a text.
func calendarsOf(t *testing.T, text string) string {
	t.Helper()
	block := calendarBlock.FindStringSubmatch(text)
	if block == nil {
		t.Fatal("no page shows calendars")
	}
	return block[1]
}

// whole completes a block with some fields of a rule by the fields of the page's first rule. A block that begins with
// a name is a complete rule.
func whole(block string, first map[string]string) string {
	if strings.HasPrefix(block, "name:") {
		return block
	}
	here := fieldsOf(block)
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if here[name] == "" {
			block = first[name] + block
		}
	}
	return block
}

// fieldsOf returns the fields of a rule, by name.
func fieldsOf(block string) map[string]string {
	fields := make(map[string]string)
	name := ""
	for text := range strings.Lines(block) {
		if m := topField.FindStringSubmatch(text); m != nil {
			name = m[1]
		}
		fields[name] += text
	}
	return fields
}

// compareFile compares a file with its expected contents, or updates it.
func compareFile(t *testing.T, file, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(read(t, file), want); diff != "" {
		t.Errorf("%s (-page +program); -rewrite updates it:\n%s", file, diff)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
