package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

// used is a set of names.
type used map[string]bool

func (u used) addAll(o used) { maps.Copy(u, o) }

func (u used) names() []string { return slices.Sorted(maps.Keys(u)) }

// What the parser does not know at all is recognised by a word: one with which a statement begins,
// or one anywhere.
var (
	beginnings = map[string]string{"LISTEN": "LISTEN", "NOTIFY": "NOTIFY", "LOCK": "LOCK TABLE"}
	anywhere   = map[string]string{"MERGE": "MERGE", "BRIN": "BRIN", "TRIGGER": "trigger"}
)

// words are the names of what is recognised by a word.
func words(text string) used {
	u := used{}
	tokens, _ := parser.Tokens(text) // what it cannot split, it cannot parse either
	begins := true
	for _, t := range tokens {
		word := strings.ToUpper(t.Str)
		if name, ok := beginnings[word]; ok && begins {
			u[name] = true
		}
		if name, ok := anywhere[word]; ok {
			u[name] = true
		}
		begins = t.TokenID == ';'
	}
	return u
}
