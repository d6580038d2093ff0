package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// exitMeaning is the meaning of an exit code, for the help and docs/reference/cli.md.
type exitMeaning struct {
	code    int
	meaning string
}

var exitMeanings = []exitMeaning{
	{exitOK, "success; an empty list is a success"},
	{exitFailure, "failure: the node refused the request or cannot be reached, an event of `replay` is malformed, the command was interrupted, or a question was answered with no"},
	{exitUsage, "usage: an unknown command or flag, or an invalid value or setting"},
	{exitCondition, "a condition does not hold, see below"},
}

// unmetCondition is a condition of commands. If it does not hold, they end with exitCondition.
type unmetCondition struct {
	commands []string // without the name of the program, with a flag if only that form has the condition
	meaning  string   // what does not hold
}

// err ends the command without a message.
func (unmetCondition) err() error { return silentError{exitCondition} }

// The conditions. Each is in unmetConditions.
var (
	unmetStatus   = unmetCondition{[]string{"status"}, "a condition failed, or an open alert is not acknowledged"}
	unmetSend     = unmetCondition{[]string{"event send"}, "a rule refuses the event, which becomes a dead letter of that rule; the event is published"}
	unmetCreate   = unmetCondition{[]string{"job create --file"}, "a line of the file is refused; the other jobs are created"}
	unmetPut      = unmetCondition{[]string{"schedule put --file"}, "a line of the file is refused; the other schedules are changed"}
	unmetRules    = unmetCondition{[]string{"rule lint", "rule apply"}, "a rule has errors"}
	unmetPreview  = unmetCondition{[]string{"rule preview"}, "the rule has errors, or an event would become a dead letter"}
	unmetTests    = unmetCondition{[]string{"rule test"}, "a test fails, a file has errors, or the coverage is less than `--min-coverage`"}
	unmetReplay   = unmetCondition{[]string{"replay"}, "events are refused"}
	unmetTest     = unmetCondition{[]string{"channel test", "source test", "handler test"}, "the test failed"}
	unmetSchema   = unmetCondition{[]string{"migrate --check"}, "migrations are pending"}
	unmetDiagnose = unmetCondition{[]string{"doctor"}, "a check failed, or could not be made"}
)

var unmetConditions = []unmetCondition{
	unmetStatus, unmetSend, unmetCreate, unmetPut, unmetRules, unmetPreview, unmetTests, unmetReplay, unmetTest, unmetSchema, unmetDiagnose,
}

// newExitCodesTopic returns the help topic about exit codes.
func newExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of all commands:\n")
	for _, e := range exitMeanings {
		writeDefinition(&b, 2, strconv.Itoa(e.code), e.meaning)
	}
	b.WriteString("\n\nConditions with exit code 3:\n")
	for _, u := range unmetConditions {
		writeDefinition(&b, 40, strings.Join(u.commands, ", "), u.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes of all commands", Long: b.String()}
}

// writeDefinition writes a term and its meaning, in lines of up to 100 columns.
func writeDefinition(b *strings.Builder, width int, term, meaning string) {
	for i, line := range wrapText(strings.ReplaceAll(meaning, "`", ""), 96-width) {
		if i > 0 {
			term = ""
		}
		fmt.Fprintf(b, "\n  %-*s %s", width, term, line)
	}
}

// distance returns the edit distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}
