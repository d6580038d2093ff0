package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryBugCompiles checks that each bug of the list applies to the present code, that the planted package compiles, and
// that its entry names tests and a promise that exist. It checks types only: a build of each package would take minutes.
func TestEveryBugCompiles(t *testing.T) {
	bugs, err := readBugs(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) < 40 {
		t.Errorf("%d bugs, at least 40 are needed", len(bugs))
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t, root, bugs)
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			text, err := b.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.check(b.File, text); err != nil {
				t.Errorf("does not compile: %v", err)
			}
			if !regexp.MustCompile(`^(P([1-9]|1[0-5]))?$`).MatchString(b.Promise) {
				t.Errorf("promise %q, must be P1 to P15 or empty", b.Promise)
			}
			for _, args := range b.Tests {
				folder, pattern, _ := strings.Cut(args, " -run ")
				folder, _, _ = strings.Cut(folder, " ") // flags of the test follow it
				for _, name := range alternatives(pattern) {
					if !hasTest(t, filepath.Join(root, folder), name) {
						t.Errorf("tests %q: the folder has no test %s", args, name)
					}
				}
			}
		})
	}
}

// alternatives returns a pattern of each test that the first element of a pattern of -run names, such as ^Test(Fold|Sweep)$.
func alternatives(pattern string) []string {
	first, _, _ := strings.Cut(pattern, "/")
	prefix, rest, has := strings.Cut(first, "(")
	names, suffix, closed := strings.Cut(rest, ")")
	if !has || !closed {
		return []string{first}
	}
	var all []string
	for name := range strings.SplitSeq(names, "|") {
		all = append(all, prefix+name+suffix)
	}
	return all
}

// hasTest reports whether a test of a folder matches a pattern.
func hasTest(t *testing.T, folder, pattern string) bool {
	t.Helper()
	isNamed := regexp.MustCompile(pattern)
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			if isNamed.Match(test[1]) {
				return true
			}
		}
	}
	return false
}

// checker checks the types of packages with one file replaced.
type checker struct {
	root     string
	packages map[string]goPackage // by folder
	types    types.Importer
	files    *token.FileSet
	parsed   map[string]*ast.File
}

// goPackage is a package as go list prints it.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// newChecker compiles the imports of the bugs' packages.
func newChecker(t *testing.T, root string, bugs []bug) *checker {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, b := range bugs {
		args = append(args, "./"+filepath.Dir(b.File))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	c := &checker{root: root, packages: make(map[string]goPackage), files: token.NewFileSet(), parsed: make(map[string]*ast.File)}
	exports := make(map[string]string)
	for all := json.NewDecoder(bytes.NewReader(text)); ; {
		var p goPackage
		if err := all.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath], c.packages[p.Dir] = p.Export, p
	}
	c.types = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	return c
}

// check returns an error if the package of the file does not compile with the text in the place of the file.
func (c *checker) check(file, text string) error {
	folder := filepath.Join(c.root, filepath.Dir(file))
	p := c.packages[folder]
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(folder, name)
		if name == filepath.Base(file) {
			f, err := parser.ParseFile(c.files, path, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
			continue
		}
		if c.parsed[path] == nil {
			f, err := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			c.parsed[path] = f
		}
		files = append(files, c.parsed[path])
	}
	_, err := (&types.Config{Importer: c.types}).Check(p.ImportPath, c.files, files, nil)
	return err
}
