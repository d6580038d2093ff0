package store_test

import (
	"bytes"
	"encoding/json"
	command "os/exec"
	"regexp"
	"slices"
	"testing"
)

// notPortable lists the parts of statements that are not in the common grammar. For an engine without such a part it is
// left out, and the rest stays valid.
var notPortable = []struct {
	what *regexp.Regexp
	why  string
}{
	{
		regexp.MustCompile(` COLLATE "C"`),
		"keys are compared by their bytes; in an engine where that is the order of every text, nothing has to say so",
	},
	{
		regexp.MustCompile(`(?s)^ALTER TABLE \w+\s+ALTER COLUMN \w+ SET STORAGE .*$`),
		"which columns lie beside the row, and how soon it is vacuumed: a matter of Postgres's heap alone",
	},
	{
		regexp.MustCompile(`^EXPLAIN \(ANALYZE, BUFFERS, FORMAT JSON\) `),
		"what a read touches, which only bench reads; without it, an engine is measured by time alone",
	},
	{
		regexp.MustCompile(` PARTITION BY RANGE \(ended_at\)`),
		"history in days, which are dropped whole; without them it is pruned by DELETE",
	},
	{
		regexp.MustCompile(`(?s)^(CREATE TABLE history_\w+ (PARTITION OF|\(LIKE) history .*|ALTER TABLE history ATTACH PARTITION .*)$`),
		"a day of history",
	},
}

// alternatives lists the features that all engines parse but some implement differently. Decision 47 has the differences,
// and the alternatives.
var alternatives = map[string]string{
	"DELETE … USING":         "an engine that distributes by a column wants it compared in the join; shard is",
	"FOR KEY SHARE":          "the fence: renewals of a lease pass by it, takeovers wait; where it locks as FOR SHARE does, both wait",
	"FOR NO KEY UPDATE":      "batches of a rule go one after the other, beside settles; where it locks as FOR UPDATE does, settles wait, too",
	"FOR SHARE":              "a batch by hand keeps its rules as they are; a change of them waits",
	"FOR UPDATE":             "where a statement may touch one node only, it has to name one shard",
	"SET LOCAL":              "the bounds of a transaction, some of which an engine may not know",
	"UPDATE … FROM":          "as DELETE … USING",
	"identity column":        "ids have to be unique and are never compared; in some engines they are neither small nor in order",
	"index on an expression": "the list of open alerts; it may be left out, and the list is slower",
	"nextval":                "the id of a job that ended as it began",
	"partial index":          "of which four are unique and keep a promise: a name, a token's name, an outage, a ping address",
	"storage parameters":     "a matter of Postgres's heap; an engine that does not know them says so, or passes over them",
	"system catalog":         "which tables there are, and which days history has",
	"table written twice":    "the settle ends some jobs and moves others, and marking drops rows of the outbox and cuts others; each may be sent as two statements",
	"write in WITH":          "the settle is one statement, so that it is one round trip",
}

// forbidden lists the features that must not be used for any reason: they fail behind a pooler, across the nodes of an
// engine, or entirely.
var forbidden = []string{"BRIN", "LISTEN", "LOCK TABLE", "MERGE", "NOTIFY", "advisory lock", "order of a sequence", "session SET", "trigger"}

// resultSQL is the grammar module's verdict on a text.
type resultSQL struct {
	Error string
	Uses  []string
}

// checkGrammar runs the grammar module on texts.
func checkGrammar(t *testing.T, texts []string) map[string]resultSQL {
	t.Helper()
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	var out, output bytes.Buffer
	cmd := command.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "grammar", bytes.NewReader(in), &out, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("go -C store/grammar run . failed (the first time it downloads a parser): %v\n%s", err, &output)
	}
	var verdicts []resultSQL
	if err := json.Unmarshal(out.Bytes(), &verdicts); err != nil || len(verdicts) != len(texts) {
		t.Fatalf("%d verdicts about %d texts: %v", len(verdicts), len(texts), err)
	}
	of := make(map[string]resultSQL, len(texts))
	for i, v := range verdicts {
		of[texts[i]] = v
	}
	return of
}

// checkStatementsPortable fails the test for each statement that the distributed engines cannot parse once the parts of
// outside are removed, or that has a feature of never; and for each entry of the lists that is no longer needed.
func checkStatementsPortable(t *testing.T, sent []string) {
	texts := slices.Clone(sent)
	for _, text := range sent {
		texts = append(texts, withoutUse(text, -1))
		for i := range notPortable {
			texts = append(texts, withoutUse(text, i))
		}
	}
	slices.Sort(texts)
	of := checkGrammar(t, slices.Compact(texts))
	needed, used := make([]bool, len(notPortable)), make(map[string]bool)
	for _, text := range sent {
		uses := of[text].Uses
		if of[text].Error != "" {
			rest := of[withoutUse(text, -1)]
			if rest.Error != "" {
				t.Errorf("outside of the common grammar, %s:\n%s", rest.Error, text)
			}
			uses = append(uses, rest.Uses...)
			for i := range notPortable {
				needed[i] = needed[i] || rest.Error == "" && of[withoutUse(text, i)].Error != ""
			}
		}
		slices.Sort(uses)
		for _, use := range slices.Compact(uses) {
			used[use] = true
			if _, known := alternatives[use]; !known || slices.Contains(forbidden, use) {
				t.Errorf("%s %s:\n%s", use, remedy(use), text)
			}
		}
	}
	for i, o := range notPortable {
		if !needed[i] {
			t.Errorf("no statement has to be without %s; take it out of outside", o.what)
		}
	}
	for use := range alternatives {
		if !used[use] {
			t.Errorf("no statement has %s any more; take it out of otherwise", use)
		}
	}
}

// remedy returns the advice for a feature that is new in the statements.
func remedy(use string) string {
	if slices.Contains(forbidden, use) {
		return "is not to be used; find another way"
	}
	return "is new; name it in otherwise, and say in decision 47 what the engines make of it"
}

// withoutUse returns a text without the parts of outside, except for the part at index but, if it is not negative.
func withoutUse(text string, but int) string {
	for i, o := range notPortable {
		if i != but {
			text = o.what.ReplaceAllString(text, "")
		}
	}
	return text
}
