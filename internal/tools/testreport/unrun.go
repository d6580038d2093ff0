package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// listedPackage is a package as go list describes it.
type listedPackage struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
}

// isTest matches the names of functions that go test runs.
var isTest = regexp.MustCompile(`^Test([^a-z]|$)`)

// checkAllRan returns an error with the tests of ./... that a recorded file lacks, except those that match a pattern. A
// skipped test counts as run: its reason is in the table of its loop.
func checkAllRan(name, except string) error {
	pattern, err := regexp.Compile(except)
	if err != nil {
		return fmt.Errorf("-except: %w", err)
	}
	ends, err := readFile(name)
	if err != nil {
		return err
	}
	missing, err := allTests(".")
	if err != nil {
		return err
	}
	for _, e := range ends {
		delete(missing, e.Package+" "+e.Test)
	}
	var all []error
	for test := range missing {
		if !pattern.MatchString(test) {
			all = append(all, fmt.Errorf("%s ran in no loop: look for its package and its name in internal/tools/test, race and ui", test))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

// allTests returns the tests of the module in a folder, each as its package and its name.
func allTests(folder string) (map[string]bool, error) {
	list := exec.Command("go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "./...") //nolint:noctx // it ends by itself
	list.Dir = folder
	packages, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := make(map[string]bool)
	for dec := json.NewDecoder(strings.NewReader(string(packages))); ; {
		var p listedPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name != "TestMain" && isTest.MatchString(f.Name.Name) {
					all[p.ImportPath+" "+f.Name.Name] = true
				}
			}
		}
	}
}
