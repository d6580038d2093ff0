package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retiredWords are words that named things here and that no reader outside knew. No file and no declared name contains
// one of them, in tests either: jobDeed contains deed.
var retiredWords = strings.Fields(`
	ailment amnesty arena ask asked asking asks beaten beating belt besiege besieged blindnesses blindstep born breath
	brook clerk deafness deed deeds desk ear ears farthest fate flown foresight foretold going grave happening
	happenings haul hear heard hearing hears herdsman knows lanes lapse legible letterbook looked lookout looks loud
	loudness mercy mourn mouth news outing outings overlooked passover plight prover purse quietly road roads said say
	sayable saying sayings says setback setbacks shelf sow speak speaks spoken stand stands stood tell telling tells
	told turnaway unasked uneven unlikeness unlooked unsaid unsayable untold unwitnessed voice wander wary wish wished wishes
	witness witnessed world
`)

// retiredNames are names of the same kind with words that are standard terms in other names, or that still occur in
// them. No file, type, function or method outside tests has one of them as its whole name.
var retiredNames = strings.Fields(`
	ailment amnesty arena beating belt blindnesses blindstep bomb breath brook captured clerk deaf deafness deed deeds deedsdone deedwords desk door ears farthest fate
	foresight foretold grave haul hearing herdsman intaketopic ladder lapse legible letterbook lookapart lookout loudness loudof
	mercy mourn newtaker overlooked papers parcel passover plight prover roll rooms sayings shipment sight sow spokenfor
	stretches twin unlooked wallat wander wires witness
`)

// TestRetiredWords keeps names that only their author understood from coming back.
func TestRetiredWords(t *testing.T) {
	names := 0
	walkGo(t, root(t), func(path string, file *ast.File) {
		name := strings.TrimSuffix(filepath.Base(path), ".go")
		if word := retiredIn(strings.TrimSuffix(name, "_test")); word != "" || slices.Contains(retiredNames, name) {
			t.Errorf("%s: the name has a retired word (%s): name the file after its noun", path, word)
		}
		for id := range declaredIn(file) {
			if names++; retiredIn(id) != "" {
				t.Errorf("%s: %q has the retired word %q: use the standard term", path, id, retiredIn(id))
			}
		}
		if strings.HasSuffix(name, "_test") {
			return
		}
		for _, d := range file.Decls {
			for _, id := range declared(d) {
				if slices.Contains(retiredNames, strings.ToLower(id)) {
					t.Errorf("%s: %q is a retired name: use the standard term", path, id)
				}
			}
		}
	})
	if names == 0 {
		t.Fatal("no name was read")
	}
}

// TestWordsOfNames checks that names are divided into their words.
func TestWordsOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"jobDeed": "job deed", "Deed": "deed", "letters_deed": "letters deed", "deedOfURL2": "deed of url", "HTTPDeed": "http deed", "indeed": "indeed",
	} {
		if got := strings.Join(wordsOf(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// retiredIn returns the first retired word of a name; empty: none.
func retiredIn(name string) string {
	for _, word := range wordsOf(name) {
		if slices.Contains(retiredWords, word) {
			return word
		}
	}
	return ""
}

// wordsOf returns the words of a name in lower case, without digits.
func wordsOf(name string) (words []string) {
	var runes []rune
	end := func() {
		if len(runes) > 0 {
			words = append(words, strings.ToLower(string(runes)))
		}
		runes = runes[:0]
	}
	all := []rune(name)
	for i, r := range all {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(all[i-1]) || i+1 < len(all) && unicode.IsLower(all[i+1])):
			end()
		}
		runes = append(runes, r)
	}
	end()
	return words
}

// declared returns the names of the types, functions and methods of a declaration.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, is := s.(*ast.TypeSpec); is {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}

// declaredIn returns all names that a file declares: types, functions, methods, fields, parameters, constants and
// variables.
func declaredIn(file *ast.File) map[string]bool {
	names := map[string]bool{}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			names[id.Name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(identsOf(n.Lhs)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(identsOf([]ast.Expr{n.Key, n.Value})...)
			}
		}
		return true
	})
	return names
}

// identsOf returns the expressions that are identifiers.
func identsOf(all []ast.Expr) (ids []*ast.Ident) {
	for _, e := range all {
		if id, is := e.(*ast.Ident); is {
			ids = append(ids, id)
		}
	}
	return ids
}

// walkGo calls do for each Go file of the project, tests included.
func walkGo(t *testing.T, root string, do func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && isForeign(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(path, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
