//go:build unix

package operatorfiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"deadman/internal/operatorfiles"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, vast, pipe := filepath.Join(dir, "good"), filepath.Join(dir, "vast"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(good, []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vast, make([]byte, 4<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link") // as Kubernetes mounts files
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{good, link} {
		if data, err := operatorfiles.Read(path); err != nil || string(data) != "a: 1\n" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
		if err := operatorfiles.CheckRegular(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := operatorfiles.Read(vast); err == nil || !strings.Contains(err.Error(), vast+": it has more than 4194304 bytes") {
		t.Errorf("a file of 4 MiB and a byte: %v", err)
	}
	for path, want := range map[string]string{pipe: "not a regular file", dir: "not a regular file", filepath.Join(dir, "none"): "no such file"} {
		if err := operatorfiles.CheckRegular(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
