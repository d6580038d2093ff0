// Grammar reports if the distributed Postgres engines can parse statements, and the features of the statements that
// those engines implement differently. It reads a JSON array of texts from its input and writes a Verdict for each, in
// the same order, to its output.
//
// It is a module of its own: CockroachDB's parser is large, and deadman must not depend on its dependencies. The tests
// of store run it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

// Verdict is the result for a text of one or several statements.
type Verdict struct {
	Error string   `json:"error,omitempty"` // the parser's error; empty: none
	Uses  []string `json:"uses,omitempty"`  // the names of features in uses.go and words.go
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "grammar:", err)
		os.Exit(1) //nolint:forbidigo // this is a program
	}
}

func run() error {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return err
	}
	verdicts := make([]Verdict, len(texts))
	for i, text := range texts {
		verdicts[i] = judge(text)
	}
	return json.NewEncoder(os.Stdout).Encode(verdicts)
}

func judge(text string) Verdict {
	used := words(text)
	statements, err := parser.Parse(text)
	if err != nil {
		return Verdict{Error: err.Error(), Uses: used.names()}
	}
	for _, s := range statements {
		used.addAll(usesOf(s.AST))
	}
	return Verdict{Uses: used.names()}
}
