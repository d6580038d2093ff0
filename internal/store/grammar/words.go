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

// Features that the parser does not know are recognized by a word: at the beginning of a statement, or anywhere.
var (
	beginnings = map[string]string{"LISTEN": "LISTEN", "NOTIFY": "NOTIFY", "LOCK": "LOCK TABLE"}
	anywhere   = map[string]string{"MERGE": "MERGE", "BRIN": "BRIN", "TRIGGER": "trigger"}
)

// words returns the names of the features that are recognized by a word.
func words(text string) used {
	u := used{}
	tokens, _ := parser.Tokens(text) // a text without tokens cannot be parsed either
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
