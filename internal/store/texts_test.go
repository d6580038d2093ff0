package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sqlText is an SQL text in the sources of store: its constant parts, in order. The text between them is known only at
// run time.
type sqlText struct {
	at    token.Position
	parts []string
}

// in reports whether a statement has the parts, in order.
func (s sqlText) in(statement string) bool {
	for _, part := range s.parts {
		_, rest, found := strings.Cut(statement, part)
		if !found {
			return false
		}
		statement = rest
	}
	return true
}

func (s sqlText) String() string {
	return s.at.String() + ": " + strings.Join(s.parts, " … ")
}

// sources are the files of store for Postgres.
type sources struct {
	set   *token.FileSet
	files []*ast.File
	named map[string]ast.Expr // the package's constants and variables
	texts []sqlText
	stray []token.Position // SQL outside back quotes
}

// readSources reads the files of store, except tests and those named after SQLite. These have SQL in back quotes, and
// all other strings in double quotes.
func readSources(t *testing.T) *sources {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	s := &sources{set: token.NewFileSet(), named: make(map[string]ast.Expr)}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "sqlite.go") {
			continue
		}
		f, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
		s.name(f)
	}
	for _, f := range s.files {
		ast.Inspect(f, s.read)
	}
	if len(s.texts) == 0 {
		t.Fatal("the sources of store have no text of SQL")
	}
	return s
}

// name collects the declarations of the package.
func (s *sources) name(f *ast.File) {
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range decl.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					s.named[name.Name] = v.Values[i]
				}
			}
		}
	}
}

// read collects the texts below a node. A sum of texts is one text.
func (s *sources) read(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field:
		return n.Tag == nil // a tag is in back quotes, too
	case *ast.CallExpr:
		return !isErrorText(n)
	case *ast.BinaryExpr, *ast.BasicLit:
		e := n.(ast.Expr)
		if !s.quoted(e) {
			return true
		}
		if parts := splitJoined(s.parts(e, 0)); len(parts) > 0 {
			s.texts = append(s.texts, sqlText{s.set.Position(e.Pos()), parts})
		}
		s.inner(e)
		return false
	}
	return true
}

// inner collects the texts in the arguments of calls within a sum.
func (s *sources) inner(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		s.inner(e.X)
		s.inner(e.Y)
	case *ast.BasicLit:
	default:
		ast.Inspect(e, s.read)
	}
}

// isErrorText reports whether a call creates an error, since its text may contain back quotes.
func isErrorText(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Errorf"
}

// sqlWords are in capitals only in SQL.
var sqlWords = regexp.MustCompile(`\b(ALTER|AND|BEGIN|COPY|CREATE|DELETE|DROP|FROM|INSERT|JOIN|LIMIT|LISTEN|LOCK|MERGE|NOTIFY|NULL|ORDER|SELECT|SET|TRUNCATE|UPDATE|VALUES|WHERE|WITH)\b`)

// quoted reports whether a sum has a text in back quotes.
func (s *sources) quoted(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		x, y := s.quoted(e.X), s.quoted(e.Y)
		return e.Op == token.ADD && (x || y)
	case *ast.BasicLit:
		if e.Kind == token.STRING && e.Value[0] == '"' && sqlWords.MatchString(e.Value) {
			s.stray = append(s.stray, s.set.Position(e.Pos()))
		}
		return e.Kind == token.STRING && e.Value[0] == '`' && len(e.Value) > 2
	}
	return false
}

// unknownText marks a part that is known only at run time.
const unknownText = "\x00"

var formatVerbs = regexp.MustCompile(`%(\[\d\])?[dqsv]`)

// parts returns the constant parts of a text, with unknown in between.
func (s *sources) parts(e ast.Expr, depth int) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return formatVerbs.ReplaceAllString(text, unknownText)
		}
	case *ast.BinaryExpr:
		return s.parts(e.X, depth) + s.parts(e.Y, depth)
	case *ast.Ident:
		if v, ok := s.named[e.Name]; ok && depth < 10 {
			return s.parts(v, depth+1)
		}
	case *ast.ParenExpr:
		return s.parts(e.X, depth)
	}
	return unknownText
}

func splitJoined(text string) (parts []string) {
	for part := range strings.SplitSeq(text, unknownText) {
		if part = unnumbered(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

var parameter = regexp.MustCompile(`\$\d+`)

// unnumbered returns a text with each parameter as ?.
func unnumbered(text string) string { return parameter.ReplaceAllString(text, "?") }
