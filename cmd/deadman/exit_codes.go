package main

import "github.com/spf13/cobra"

// exitCodesText describes the exit codes of all commands. docs/reference/cli.md has the same table.
const exitCodesText = `Exit codes of all commands:

  0  success; an empty list is a success
  1  failure: the node refused the request or cannot be reached, an event of replay is malformed,
     the command was interrupted, or a question was answered with no
  2  usage: an unknown command or flag, or an invalid value
  3  a condition does not hold:
       status                       a condition failed, or an open alert is not acknowledged
       event send                   a rule refuses the event; the event is published
       rule lint, rule apply        a rule has errors
       rule preview                 an event would become a dead letter
       replay                       events are refused
       rule test                    a test fails, a file has errors, or the
                                    coverage is less than --min-coverage
       channel, source and          the test failed
         handler test
       migrate --check              migrations are pending
       doctor                       a check failed, or could not be made`

// newExitCodesTopic returns the help topic about exit codes.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes of all commands", Long: exitCodesText}
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
