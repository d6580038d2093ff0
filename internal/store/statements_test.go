package store_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"deadman/migrations"
)

// notSQL lists texts in back quotes that are not statements as they are.
var notSQL = map[string]string{
	"CASE WHEN entry":       "a pattern, of which trailWith makes the text",
	"PRAGMA quick_check":    "of the copy of a SQLite file, which tests of deadman backup make",
	"PRAGMA wal_checkpoint": "likewise",
	"ROLLBACK":              "of the probe behind a pooler, which tests of poolers make",
	"SELECT deadman_":       "sent where another user owns the tables, which deploy tests",
}

// checkAllTextsSent fails the test for each SQL text in the sources and the migrations that is in no recorded statement:
// a text that is never sent is untested. Only package store sends SQL to deadman's own database, as lint checks.
func checkAllTextsSent(t *testing.T, sent []string) {
	statements := make([]string, len(sent))
	plain := make(map[string]bool)
	for i, text := range sent {
		statements[i] = unnumbered(text)
		plain[withoutLineComments(text)] = true
	}
	s := readSources(t)
	for _, at := range s.stray {
		t.Errorf("%s: this test does not find a text of SQL in double quotes; put it in back quotes", at)
	}
	for _, text := range s.texts {
		if !slices.ContainsFunc(statements, text.in) && !isNotSQL(text) {
			t.Errorf("no statement has this text of SQL; let a behaviour of storetest send it:\n%s", text)
		}
	}
	for begin := range notSQL {
		if !slices.ContainsFunc(s.texts, func(text sqlText) bool { return strings.HasPrefix(text.parts[0], begin) }) {
			t.Errorf("no text begins with %q any more; take it out of notSQL", begin)
		}
	}
	for _, statement := range migrationStatements(t) {
		if !plain[statement] {
			t.Errorf("a migration has a statement that was not sent:\n%s", statement)
		}
	}
}

func isNotSQL(text sqlText) bool {
	for begin := range notSQL {
		if strings.HasPrefix(text.parts[0], begin) {
			return true
		}
	}
	return false
}

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	blank   = regexp.MustCompile(`\s+`)
)

// withoutLineComments returns a statement without comments, with all whitespace as single blanks.
func withoutLineComments(text string) string {
	return strings.Trim(blank.ReplaceAllString(comment.ReplaceAllString(text, ""), " "), " ;")
}

func migrationStatements(t *testing.T) (statements []string) {
	t.Helper()
	files, err := fs.Glob(migrations.Postgres, "postgres/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	for _, name := range files {
		text, err := fs.ReadFile(migrations.Postgres, name)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(comment.ReplaceAllString(string(text), ""), ";") {
			if part = withoutLineComments(part); part != "" {
				statements = append(statements, part)
			}
		}
	}
	return statements
}
