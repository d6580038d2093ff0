package docs_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"deadman/alerts"
	"deadman/web"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of docs/reference/conditions.md as the code has them")

const (
	conditionsPage      = "reference/conditions.md"
	troubleshootingPage = "operations/troubleshooting.md"
)

// TestConditionsAreDocumented checks that the reference has the conditions and the system alerts of the code. go test ./docs
// -run Conditions -rewrite updates it.
func TestConditionsAreDocumented(t *testing.T) {
	page := read(t, conditionsPage)
	written := withTable(t, page, "conditions", web.ConditionTable())
	written = withTable(t, written, "alerts", alerts.SystemKindTable())
	switch {
	case written == page:
	case !*rewrite:
		t.Fatalf("%s is not as the code has it; run go test ./docs -run Conditions -rewrite", conditionsPage)
	default:
		if err := os.WriteFile(conditionsPage, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// withTable returns a page with another table of a name.
func withTable(t *testing.T, page, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+": go test ./docs -run Conditions -rewrite -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table: %q and %q", conditionsPage, begin, end)
	}
	return before + begin + table + end + after
}

// TestConditionKindsAreComplete scans the code: web.ConditionKinds has exactly the conditions of a node.
func TestConditionKindsAreComplete(t *testing.T) {
	var known []string
	for _, k := range web.ConditionKinds {
		known = append(known, k.Name)
	}
	found := make(map[string]bool)
	for _, f := range parsedFiles(t) {
		if f.folder != "../server" {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if name, is := n.Fun.(*ast.Ident); is && name.Name == "condition" {
					found[f.text(n.Args[0])] = true
				}
			case *ast.CompositeLit:
				listed, isList := n.Type.(*ast.ArrayType)
				for _, e := range n.Elts {
					if lit, is := e.(*ast.CompositeLit); is && isList && lit.Type == nil {
						lit.Type = listed.Elt // elided
					}
				}
				if name, is := fieldsOf(n, "Condition")["Name"]; is && !strings.HasPrefix(f.text(name), "?") {
					found[f.text(name)] = true
				}
			}
			return true
		})
	}
	sameNames(t, "web.ConditionKinds", known, found)
}

// TestSystemKindsAreComplete scans the code: alerts.SystemKinds has exactly the steps of the alerts that the code raises, each
// with its form of the key where the code has it as a text.
func TestSystemKindsAreComplete(t *testing.T) {
	var known []string
	for _, k := range alerts.SystemKinds {
		known = append(known, k.Step)
	}
	found := make(map[string]bool)
	for _, f := range parsedFiles(t) {
		raises := false
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				fields := fieldsOf(n, "SystemAlert")
				topic, is := fields["Topic"]
				if raises = raises || is; !is {
					return true
				}
				step, stepIs := fields["Step"]
				if key := f.text(topic); stepIs && !strings.HasPrefix(key, "?") && !strings.HasPrefix(f.text(step), "?") {
					if _, is := alerts.SystemKindOf(key+"x", f.text(step)); !is {
						if _, is = alerts.SystemKindOf(key, f.text(step)); !is {
							t.Errorf("%s raises an alert with the key %s and the step %s; add it to alerts.SystemKinds", f.folder, key, f.text(step))
						}
					}
				}
				if stepIs {
					found[f.text(step)] = true
				}
			case *ast.CallExpr: // rules.tickRun.remark
				if s, is := n.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "remark" {
					found[f.text(n.Args[0])] = true
				}
			case *ast.AssignStmt:
				if s, is := n.Lhs[0].(*ast.SelectorExpr); is && s.Sel.Name == "Step" && raises {
					found[f.text(n.Rhs[0])] = true
				}
			}
			return true
		})
	}
	for name := range found { // variables
		if strings.HasPrefix(name, "?") {
			delete(found, name)
		}
	}
	found[""] = true // a channel has no step
	sameNames(t, "alerts.SystemKinds", known, found)
}

// sameNames compares a table with the names that the code uses.
func sameNames(t *testing.T, table string, known []string, found map[string]bool) {
	t.Helper()
	if len(found) < 10 {
		t.Fatalf("only %d names are found in the code", len(found))
	}
	for name := range found {
		if !slices.Contains(known, name) {
			t.Errorf("%s lacks %q of the code", table, name)
		}
	}
	for _, name := range known {
		if !found[name] {
			t.Errorf("%s has %q, which the code does not use", table, name)
		}
	}
}

// TestTroubleshootingHasEachCondition checks that the page has a section for each condition and system alert, none for an
// unknown condition, and quotes texts that the code has.
func TestTroubleshootingHasEachCondition(t *testing.T) {
	page := read(t, troubleshootingPage)
	sections := make(map[string]string) // the text of each section by its heading
	for _, part := range regexp.MustCompile(`(?m)^### `).Split(page, -1)[1:] {
		title, text, _ := strings.Cut(part, "\n")
		sections[title], _, _ = strings.Cut(text, "\n## ")
	}
	for _, k := range web.ConditionKinds {
		if text := sections["Condition "+k.Name]; !strings.Contains(text, "\n> ") || len(text) < 150 {
			t.Errorf("%s has no section “Condition %s” with a text of the condition and a remedy", troubleshootingPage, k.Name)
		}
	}
	for _, k := range alerts.SystemKinds {
		if sections[k.Section] == "" {
			t.Errorf("%s has no section %q for the alert %s of %s", troubleshootingPage, k.Section, k.Step, k.Topic)
		}
	}
	for title := range sections {
		name, is := strings.CutPrefix(title, "Condition ")
		if is && !slices.ContainsFunc(web.ConditionKinds, func(k web.ConditionKind) bool { return k.Name == name }) {
			t.Errorf("%s has a section about the condition %s, and there is none", troubleshootingPage, name)
		}
	}
	texts := textsOfCode(t)
	quotes := regexp.MustCompile(`(?m)^> (.*)$`).FindAllStringSubmatch(page, -1)
	for _, m := range quotes {
		for _, part := range strings.Split(m[1], "…") {
			if part = strings.Trim(part, " ;:."); len(part) > 3 && !strings.Contains(texts, strings.ReplaceAll(part, " % full", " %% full")) {
				t.Errorf("%s quotes %q, and no text of the code has it", troubleshootingPage, part)
			}
		}
	}
	if len(quotes) < len(web.ConditionKinds) {
		t.Errorf("only %d texts are quoted", len(quotes))
	}
}

// parsedFile is a Go file of the program, with the constants of its folder.
type parsedFile struct {
	*ast.File
	folder    string
	constants map[string]ast.Expr
}

// text returns the value of a constant text, or its beginning if it continues with a variable; ? and a name if unknown.
func (f parsedFile) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.Ident:
		if value, is := f.constants[e.Name]; is {
			return f.text(value)
		}
		return "?" + e.Name
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "AlertsTopic":
			return "stream/DEADMAN_ALERTS"
		case "EventsStream":
			return "DEADMAN_EVENTS"
		case "GapStep":
			return alerts.GapStep
		}
	case *ast.BinaryExpr:
		if rest := f.text(e.Y); !strings.HasPrefix(rest, "?") {
			return f.text(e.X) + rest
		}
		return f.text(e.X)
	}
	return "?"
}

// fieldsOf returns the fields of a literal of a type; none if the literal has another type.
func fieldsOf(lit *ast.CompositeLit, typed string) map[string]ast.Expr {
	name := ""
	switch of := lit.Type.(type) {
	case *ast.Ident:
		name = of.Name
	case *ast.SelectorExpr:
		name = of.Sel.Name
	}
	fields := make(map[string]ast.Expr)
	for _, e := range lit.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is && name == typed {
			if key, is := pair.Key.(*ast.Ident); is {
				fields[key.Name] = pair.Value
			}
		}
	}
	return fields
}

// parsedFiles returns the Go files of the program, without tests.
func parsedFiles(t *testing.T) (all []parsedFile) {
	t.Helper()
	constants := make(map[string]map[string]ast.Expr)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		folder := filepath.Dir(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", "bin", ".git", "storetest", "tools", "testdata"}, d.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if constants[folder] == nil {
			constants[folder] = make(map[string]ast.Expr)
		}
		for _, decl := range parsed.Decls {
			if g, is := decl.(*ast.GenDecl); is && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					if v, is := spec.(*ast.ValueSpec); is && len(v.Values) == len(v.Names) {
						for i, name := range v.Names {
							constants[folder][name.Name] = v.Values[i]
						}
					}
				}
			}
		}
		all = append(all, parsedFile{parsed, folder, constants[folder]})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// textsOfCode returns the texts of the code, one a line. Texts that are joined by + are one.
func textsOfCode(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, f := range parsedFiles(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				b.WriteString(strings.ReplaceAll(f.text(n), "?", "") + "\n")
			case *ast.BasicLit:
				if text := f.text(n); n.Kind == token.STRING {
					b.WriteString(text + "\n")
				}
			}
			return true
		})
	}
	return b.String()
}
