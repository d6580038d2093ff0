package architecture_test

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

// layers holds the packages, lowest layer first. A package imports packages of lower layers only.
var layers = [][]string{
	{"internal/configfile", "internal/addresses", "internal/subjects", "internal/periodic", "internal/operatorfiles", "examples", "docs"},
	{"internal/timezones"},
	{"guards", "internal/calendars", "internal/schedules", "migrations", "internal/failpoints", "rules/bodies"},
	{"alerts"},
	{"checks", "rules/document"},
	{"checks/lookup"},
	{"future_jobs"},
	{"internal/access"},
	{"rules", "internal/events", "internal/scheduler", "internal/webhooks", "internal/logins"},
	{"internal/pings", "internal/acklinks", "internal/badges", "internal/replay", "internal/tracing"},
	{"web/static", "internal/ruletest", "internal/replaytasks"},
	{"internal/store", "internal/bus", "web", "internal/sources", "internal/remotehandlers", "internal/notify"},
	{"web/ui"},
	{"server"},
	{"internal/bench"},
	{"internal/doctor", "internal/backup"},
	{"cmd/deadman"},
}

// testOnly are the packages of tests and samples: they may import every package, and no other package imports them.
var testOnly = []string{
	"deploy", "examples/handler-go", "internal/architecture", "internal/bus/bustest", "internal/faults", "internal/fuzz", "internal/ha",
	"internal/logins/logintest", "internal/longtest", "internal/simulation", "internal/store/storetest", "internal/testdisk", "internal/testwait",
	"internal/tools/chart", "internal/tools/licenses", "internal/tools/mutations", "internal/tools/pictures", "internal/tools/testreport",
}

// clocks are the packages that may ask the machine for the time: those with I/O.
var clocks = []string{
	"cmd/deadman", "internal/bench", "internal/bus", "internal/doctor", "internal/notify", "internal/remotehandlers", "internal/sources", "internal/store", "server", "web", "web/ui",
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		if isTestOnly(p.folder()) {
			continue
		}
		if layerOf(p.folder()) < 0 {
			t.Errorf("%s is in no layer: give it one in layers_test.go, with an ADR", p.folder())
			continue
		}
		for _, path := range p.Imports {
			if to, ours := folderOf(path); ours && !below(to, p.folder()) {
				t.Errorf("%s imports %s, which is not in a lower layer", p.folder(), to)
			}
		}
	}
}

func TestLayersReadNoClock(t *testing.T) {
	for _, p := range packages(t) {
		if isTestOnly(p.folder()) || slices.Contains(clocks, p.folder()) {
			continue
		}
		for _, name := range p.GoFiles {
			for _, use := range clockUses(t, filepath.Join(p.Dir, name)) {
				t.Errorf("%s in a package where time is an argument", use)
			}
		}
	}
}

// below reports whether a folder is in a lower layer than another.
func below(folder, other string) bool {
	return layerOf(folder) >= 0 && layerOf(folder) < layerOf(other)
}

func layerOf(folder string) int {
	return slices.IndexFunc(layers, func(folders []string) bool { return slices.Contains(folders, folder) })
}

func isTestOnly(folder string) bool {
	return slices.ContainsFunc(testOnly, func(p string) bool {
		return folder == p || strings.HasPrefix(folder, p+"/")
	})
}

// folderOf returns the folder of one of our packages.
func folderOf(path string) (folder string, ours bool) {
	return strings.CutPrefix(path, "deadman/")
}

// listedPackage is a package as go list describes it.
type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func (p listedPackage) folder() string {
	folder, _ := folderOf(p.ImportPath)
	return folder
}

// packages lists the module's packages.
func packages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var found []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listedPackage
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
