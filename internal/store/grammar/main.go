// Grammar says of statements whether the distributed Postgres engines can read them, and what is in
// them that those engines understand in ways of their own. It reads a JSON array of texts from its
// input and writes a Verdict for each, in the same order, to its output.
//
// It is a module of its own: the parser, CockroachDB's, is large, and its dependencies are not to
// be those of deadman. The tests of store run it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

// Verdict is what there is to say of a text of one or several statements.
type Verdict struct {
	Error string   `json:"error,omitempty"` // why it cannot be read; empty: it can
	Uses  []string `json:"uses,omitempty"`  // of what there is a name for in uses.go and words.go
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
