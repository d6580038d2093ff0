package storetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// A behaviour that starts goroutines runs with the race detector: it is a concurrent one.
func TestSequentialBehavioursStartNoGoroutine(t *testing.T) {
	code := readFunctions(t)
	for behaviour, test := range sequentialBehaviours {
		if code.startsGoroutine(functionName(test), map[string]bool{}) {
			t.Errorf("%s starts goroutines: move it to concurrentBehaviours", behaviour)
		}
	}
	for _, behaviour := range []string{"lease/take", "early/race", "outbox/nodes"} { // WaitGroup, in a loop, errgroup
		if !code.startsGoroutine(functionName(concurrentBehaviours[behaviour]), map[string]bool{}) {
			t.Errorf("the goroutines of %s are not found", behaviour)
		}
	}
}

// functions are the functions and methods of this package by name, without those of other packages.
type functions map[string]*ast.FuncDecl

func readFunctions(t *testing.T) functions {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := functions{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				all[f.Name.Name] = f
			}
		}
	}
	return all
}

// functionName returns the name of a function of this package.
func functionName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// startsGoroutine reports whether a function, or one that it names, has a go statement or calls a method Go.
func (all functions) startsGoroutine(name string, seen map[string]bool) (starts bool) {
	f := all[name]
	if f == nil || seen[name] {
		return false
	}
	seen[name] = true
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.Ident:
			starts = starts || n.Name == "Go" || all.startsGoroutine(n.Name, seen)
		}
		return !starts
	})
	return starts
}
