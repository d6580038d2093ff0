package access_test

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"deadman/internal/access"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of actions and quotas into docs/operations")

// TestActionsAreDocumented checks that the table in docs/operations/audit.md matches the code. go test
// ./internal/access -run Actions -rewrite updates it.
func TestActionsAreDocumented(t *testing.T) {
	isDocumented(t, "../../docs/operations/audit.md", "actions", "Actions", access.ActionTable())
}

// TestQuotasAreDocumented is TestActionsAreDocumented for the limits of quotas in docs/operations/tenants.md.
func TestQuotasAreDocumented(t *testing.T) {
	isDocumented(t, "../../docs/operations/tenants.md", "quotas", "Quotas", access.QuotaTable())
}

func isDocumented(t *testing.T, page, what, run, table string) {
	t.Helper()
	begin, end := "<!-- "+what+": go test ./internal/access -run "+run+" -rewrite -->\n", "<!-- /"+what+" -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	known, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table of %s: %q and %q", page, what, begin, end)
	}
	if known == table {
		return
	}
	if !*rewrite {
		t.Fatalf("the %s of %s are not those of the code; run go test ./internal/access -run %s -rewrite", what, page, run)
	}
	if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestActionsAreDistinctAndComplete(t *testing.T) {
	known := make(map[access.Action]bool)
	for _, a := range access.Actions {
		if known[a.Action] || a.Object == "" || a.Content == "" {
			t.Errorf("%s is there twice, or its description is incomplete: %+v", a.Action, a)
		}
		known[a.Action] = true
		if err := a.Action.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range []access.Action{"", "rule", "rule.", "rule.forget"} {
		if a.Check() == nil {
			t.Errorf("%q passes for an action", a)
		}
	}
}

// TestActionsAreWrittenByName scans the code: audit writes must use a registered action, and each action must be
// used.
func TestActionsAreWrittenByName(t *testing.T) {
	names := make(map[string]bool) // constants of type Action, and whether other packages use them
	for _, c := range constants(t, "action.go") {
		names[c] = false
	}
	if len(names) != len(access.Actions) {
		t.Errorf("%d constants of the type Action, and %d rows in Actions", len(names), len(access.Actions))
	}
	engine := map[string]string{"ActionMove": "JobMove", "ActionRetry": "DeadLetterRetry"} // of future_jobs, which does not import access
	for _, file := range goFiles(t) {
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				name := cmp.Or(engine[n.Sel.Name], n.Sel.Name)
				if _, is := names[name]; is {
					names[name] = true
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "AuditAction" {
					checkNoLiteral(t, file, n.Value)
				}
			case *ast.CallExpr:
				if slices.Contains([]string{"audit", "auditArgs", "Note", "each"}, callee(n)) {
					for _, arg := range n.Args {
						checkNoLiteral(t, file, arg)
					}
				}
			}
			return true
		})
	}
	for name, used := range names {
		if !used {
			t.Errorf("nothing writes access.%s; take it out of Actions", name)
		}
	}
}

// checkNoLiteral fails if an action is a literal: "rule.save" instead of access.RuleSave.
func checkNoLiteral(t *testing.T, file string, e ast.Expr) {
	t.Helper()
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if kind, verb, dotted := strings.Cut(text, "."); err == nil && dotted && kind != "" && verb != "" && !strings.ContainsAny(text, " /%") {
		t.Errorf("%s audits %q; give it a constant and a row in access.Actions", file, text)
	}
}

func callee(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// constants returns the names of a file's constants of type Action.
func constants(t *testing.T, file string) (names []string) {
	t.Helper()
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Action" {
				names = append(names, spec.Names[0].Name)
			}
		}
		return true
	})
	return names
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// goFiles returns the Go files of the program, without tests and test tools.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "storetest" || d.Name() == "access" || d.Name() == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}
