package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The limits of the layout and of the language. Where a comment names an aim, the limit is the current figure: a change
// that gets below it lowers it, and none raises it. docs/CONTRIBUTING.md explains them.
const (
	topLevelMost   = 19      // files and folders
	smallFilesMost = 40      // Go files of less than smallFile lines, without tests
	smallFile      = 40      // lines
	interfaceMost  = 8       // methods
	fileSizeMost   = 1 << 20 // bytes
	typeMost       = 31      // methods
	outsideMost    = 7       // percent of the methods that are not in the file of their type; the aim is 5

	fillersMost     = 0.3 // in 100 words of the comments of functions
	pageFillersMost = 0.5 // in 100 words of Markdown
	personsMost     = 20  // in all Go files
)

var (
	// filler is a pronoun or a phrase in the place of a noun.
	filler = regexp.MustCompile(`(?i)\b(what|whatever|who|whom|whose|whoever|which|where|wherever|there (is|are|was|were))\b`)
	// person is a pronoun in the place of a user, a client, a sender or an operator.
	person = regexp.MustCompile(`(?i)\b(who` + `ever|some` + `body|no` + `body)\b`)
	// markdownCode is code in Markdown.
	markdownCode = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	word         = regexp.MustCompile(`[A-Za-z']+`)
)

// sourceTree is the project, parsed.
type sourceTree struct {
	files     map[string]*sourceFile // by path
	types     map[string]*sourceType // by folder and name
	words     int                    // of the comments of functions
	fillers   int
	pageWords int // of Markdown
	pageFills int
	persons   int
}

type sourceFile struct {
	lines int
	ast   *ast.File
}

type sourceType struct {
	file    string
	methods int
	outside int // methods in other files
	most    int // methods of the interface; 0: no interface
}

func TestLimits(t *testing.T) {
	tree := readTree(t, root(t))
	largest, outside, methods := "", 0, 0
	for name, s := range tree.types {
		outside, methods = outside+s.outside, methods+s.methods
		if largest == "" || s.methods > tree.types[largest].methods {
			largest = name
		}
		if s.most > interfaceMost {
			t.Errorf("interface %s has %d methods, at most %d are allowed: make it of interfaces that are named after their use", name, s.most, interfaceMost)
		}
	}
	if n := tree.types[largest].methods; n > typeMost {
		t.Errorf("%s has %d methods, at most %d are allowed: split it along the interfaces of its users", largest, n, typeMost)
	}
	if 100*outside > outsideMost*methods {
		t.Errorf("%d of %d methods are not in the file of their type, at most %d %% are allowed: move them, or give them a type of their own", outside, methods, outsideMost)
	}
	small := 0
	for _, f := range tree.files {
		if f.lines < smallFile {
			small++
		}
	}
	if small > smallFilesMost {
		t.Errorf("%d files have less than %d lines, at most %d are allowed: join files that are read together", small, smallFile, smallFilesMost)
	}
	if n := topLevel(t, root(t)); n > topLevelMost {
		t.Errorf("the top level has %d entries, at most %d are allowed", n, topLevelMost)
	}
	checkDensity(t, "the comments of functions", tree.fillers, tree.words, fillersMost)
	checkDensity(t, "Markdown", tree.pageFills, tree.pageWords, pageFillersMost)
	if tree.persons > personsMost {
		t.Errorf("a user, client, sender or operator is a pronoun %d times, at most %d are allowed: name the person or the program", tree.persons, personsMost)
	}
}

// TestFileSizes keeps programs and recordings out of the history: they stay in every clone.
func TestFileSizes(t *testing.T) {
	top := root(t)
	ignored := ignoredPaths(t, top)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		if ignored(filepath.ToSlash(at)) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && d.Type().IsRegular() && info.Size() > fileSizeMost {
			t.Errorf("%s has %d bytes, at most %d are allowed: remove it, or name it in .gitignore", at, info.Size(), fileSizeMost)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignoredPaths returns a function that reports whether .gitignore names a path. It knows the forms that are used there:
// "/path", "*.extension" and "**/folder/**".
func ignoredPaths(t *testing.T, top string) func(at string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{"/.git"}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	return func(at string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			if folder, anywhere := strings.CutPrefix(pattern, "**"); anywhere {
				return strings.Contains("/"+at+"/", strings.TrimSuffix(folder, "**"))
			}
			if path, anchored := strings.CutPrefix(pattern, "/"); anchored {
				return at == strings.TrimSuffix(path, "/")
			}
			matches, err := filepath.Match(pattern, filepath.Base(at))
			return err == nil && matches
		})
	}
}

// checkDensity reports more fillers than are allowed in 100 words.
func checkDensity(t *testing.T, of string, fillers, words int, limit float64) {
	t.Helper()
	if got := 100 * float64(fillers) / float64(max(words, 1)); got > limit {
		t.Errorf("%s: %.2f pronouns and fillers in 100 words, at most %.1f are allowed: write nouns, see docs/CONTRIBUTING.md", of, got, limit)
	}
}

func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// topLevel returns the number of entries of the top level that are part of the project.
func topLevel(t *testing.T, root string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && e.Name() != "deadman-data" {
			n++
		}
	}
	return n
}

// readTree reads the Go files and the Markdown of the project.
func readTree(t *testing.T, root string) *sourceTree {
	t.Helper()
	tree := &sourceTree{files: make(map[string]*sourceFile), types: make(map[string]*sourceType)}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && isForeign(d.Name()):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		case strings.HasSuffix(path, ".md"):
			return tree.addPage(path)
		case strings.HasSuffix(path, ".go"):
			return tree.addFile(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, f := range tree.files {
		for _, d := range f.ast.Decls {
			tree.addTypes(path, d)
		}
	}
	for path, f := range tree.files {
		for _, d := range f.ast.Decls {
			if d, is := d.(*ast.FuncDecl); is {
				tree.addFunc(path, d)
			}
		}
	}
	if len(tree.files) == 0 || len(tree.types) == 0 || tree.pageWords == 0 {
		t.Fatalf("%s: nothing was read", root)
	}
	return tree
}

// isForeign reports whether a folder holds no source of the project.
func isForeign(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "node_modules", "testdata", "deadman-data"}, name)
}

func (s *sourceTree) addPage(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	prose := markdownCode.ReplaceAllString(string(text), "")
	s.pageWords += len(word.FindAllString(prose, -1))
	s.pageFills += len(filler.FindAllString(prose, -1))
	return nil
}

func (s *sourceTree) addFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s.persons += len(person.FindAll(text, -1))
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	s.files[path] = &sourceFile{lines: strings.Count(string(text), "\n"), ast: parsed}
	return nil
}

func (s *sourceTree) addTypes(path string, d ast.Decl) {
	g, is := d.(*ast.GenDecl)
	if !is {
		return
	}
	for _, spec := range g.Specs {
		if spec, is := spec.(*ast.TypeSpec); is {
			added := &sourceType{file: path}
			if i, is := spec.Type.(*ast.InterfaceType); is {
				added.most = i.Methods.NumFields()
			}
			s.types[filepath.Join(filepath.Dir(path), spec.Name.Name)] = added
		}
	}
}

func (s *sourceTree) addFunc(path string, d *ast.FuncDecl) {
	if d.Doc != nil {
		text := d.Doc.Text()
		s.words += len(word.FindAllString(text, -1))
		s.fillers += len(filler.FindAllString(text, -1))
	}
	if d.Recv == nil {
		return
	}
	if of := s.types[filepath.Join(filepath.Dir(path), receiver(d.Recv.List[0].Type))]; of != nil {
		of.methods++
		if of.file != path {
			of.outside++
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
