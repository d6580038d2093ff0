package deadman_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors holds the rooms, lowest floor first. A room imports rooms of lower floors only.
// A line of its own for a room's inner room, or for the program above the root package,
// says which of the two may import the other.
var floors = [][]string{
	{"papers", "examples", "addresses", "subjects"},
	{"guards", "calendars", "schedules", "migrations", "failpoints"},
	{"alerts"},
	{"checks"},
	{"checks/lookup"},
	{"future_jobs"},
	{"access"},
	{"rules", "events", "ticks", "hooks", "logins"},
	{"pings"},
	{"web/static"},
	{"store", "bus", "web", "sources", "handlers", "notify"},
	{"web/ui"},
	{"."},
	{"bench"},
	{"cmd/deadman"},
}

// provers only prove, or show: they may import every room, and no room imports them.
var provers = []string{"bus/bustest", "deploy", "examples/handler-go", "faults", "fuzz", "logins/logintest", "store/storetest"}

// clocks are the rooms that may ask the machine for the time: floor 4 and above.
var clocks = []string{"store", "bus", "web", "web/ui", "sources", "handlers", "notify", ".", "bench", "cmd/deadman"}

func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		if proves(p.room()) {
			continue
		}
		if floorOf(p.room()) < 0 {
			t.Errorf("%s stands on no floor: give it one in floors_test.go, with an ADR", p.room())
			continue
		}
		for _, path := range p.Imports {
			if to, ours := roomOf(path); ours && !below(to, p.room()) {
				t.Errorf("%s imports %s, which is not on a floor below it", p.room(), to)
			}
		}
	}
}

func TestFloorsReadNoClock(t *testing.T) {
	for _, p := range packages(t) {
		if proves(p.room()) || slices.Contains(clocks, p.room()) {
			continue
		}
		for _, name := range p.GoFiles {
			for _, use := range clockUses(t, filepath.Join(p.Dir, name)) {
				t.Errorf("%s below floor 4, where time is an argument", use)
			}
		}
	}
}

// below reports whether a room stands on a lower floor than another.
func below(room, other string) bool {
	return floorOf(room) >= 0 && floorOf(room) < floorOf(other)
}

func floorOf(room string) int {
	return slices.IndexFunc(floors, func(rooms []string) bool { return slices.Contains(rooms, room) })
}

func proves(room string) bool {
	return slices.ContainsFunc(provers, func(p string) bool {
		return room == p || strings.HasPrefix(room, p+"/")
	})
}

// roomOf returns the folder of one of our packages.
func roomOf(path string) (room string, ours bool) {
	if path == "deadman" {
		return ".", true
	}
	return strings.CutPrefix(path, "deadman/")
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func (p listed) room() string {
	room, _ := roomOf(p.ImportPath)
	return room
}

// packages lists the module's packages.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var found []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatalf("go list: %v", err)
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		t.Fatal("go list found no package")
	}
	return found
}

// clockUses returns where a file asks for the time or waits for it to pass.
func clockUses(t *testing.T, file string) []string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name := importedAs(f, "time")
	var uses []string
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && slices.Contains([]string{"Now", "Sleep", "Since", "Until"}, sel.Sel.Name) {
			uses = append(uses, set.Position(sel.Pos()).String()+": time."+sel.Sel.Name)
		}
		return true
	})
	return uses
}

// importedAs returns the name that a file knows a package by; empty: it does not.
func importedAs(f *ast.File, path string) string {
	for _, spec := range f.Imports {
		if got, err := strconv.Unquote(spec.Path.Value); err != nil || got != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path
	}
	return ""
}
