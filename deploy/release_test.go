package deploy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"deadman/internal/longtest"
)

// cloneProject returns a clean clone of the project.
func cloneProject(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	out, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "clone", "-q", "--no-local", "..", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return dir
}

// makeRelease runs make release in a folder.
func makeRelease(t *testing.T, dir, version string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "internal/tools/release")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "VERSION="+version, "TARGETS="+runtime.GOOS+"/"+runtime.GOARCH)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestReleaseIsRefused checks that a release has a version with a heading in the CHANGELOG, and is built from a commit.
func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "internal", "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"internal/tools/release": 0o700, "LICENSE": 0o600, "CHANGELOG.md": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, filepath.Join("..", name))), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all"}} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	for version, want := range map[string]string{"": `VERSION is ""; set a semantic version`, "1.0": `VERSION is "1.0"`, "v1.0.0 x": "set a semantic version", "98.0.0": `no heading "## [98.0.0] - DATE"`, "v98.0.0": "no heading"} {
		if out, err := makeRelease(t, dir, version); err == nil || !strings.Contains(out, want) {
			t.Errorf("version %q: %v, %s", version, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := makeRelease(t, dir, "v1.0.0"); err == nil || !strings.Contains(out, "changes that are not committed") {
		t.Errorf("a changed file: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin")); err == nil {
		t.Error("a refused release has files")
	}
}

// TestRelease builds a release for this system twice, in two folders. Both have the same bytes; the binary has its
// version, and the bill of materials has its modules.
func TestRelease(t *testing.T) {
	longtest.Only(t, "it builds the program without paths, which takes minutes")
	const version = "v0.0.1-test"
	name := "deadman-0.0.1-test-" + runtime.GOOS + "-" + runtime.GOARCH
	var sums [2]string
	var dir string
	for i := range sums {
		dir = cloneProject(t)
		if out, err := makeRelease(t, dir, version); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums[i] = read(t, filepath.Join(dir, "bin", "release", "SHA256SUMS"))
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ:\n%s\n%s", sums[0], sums[1])
	}
	archive := filepath.Join(dir, "bin", "release", name+".tar.gz")
	if line := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256([]byte(read(t, archive))), name); !strings.Contains(sums[1], line) {
		t.Errorf("the sums are %s, want %s", sums[1], line)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	folder := filepath.Join(dir, name)
	for _, file := range []string{"LICENSE", "THIRD_PARTY_LICENSES.txt", "README.md", "CHANGELOG.md", "completions/deadman.bash", "completions/deadman.zsh"} {
		read(t, filepath.Join(folder, file))
	}
	if page := read(t, filepath.Join(folder, "man", "deadman-rule-apply.1")); !strings.Contains(page, `"deadman `+version) {
		t.Errorf("a manual page does not have the version %s: %.200s", version, page)
	}
	binary := filepath.Join(folder, "deadman")
	out, err := exec.CommandContext(t.Context(), binary, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "deadman "+version+" (") {
		t.Errorf("deadman version: %s %v", out, err)
	}
	checkBill(t, read(t, filepath.Join(dir, "bin", "release", name+".cdx.json")), binary)
}

// checkBill checks that a bill of materials has each module of a binary.
func checkBill(t *testing.T, text, binary string) {
	t.Helper()
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(text), &bill); err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for _, c := range bill.Components {
		has[c.Name+" "+c.Version] = true
	}
	modules, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(modules)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			n++
			if !has[f[1]+" "+f[2]] {
				t.Errorf("the bill of materials has no %s %s", f[1], f[2])
			}
		}
	}
	if n < 50 {
		t.Errorf("the binary has %d modules", n)
	}
}
