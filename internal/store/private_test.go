//go:build unix

package store_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"deadman/internal/store"
)

// TestFilesOfDataFolderAreOfThisUserAlone checks that the database is for the node's user alone, with any umask and
// any earlier mode of the folder.
func TestFilesOfDataFolderAreOfThisUserAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "data")
	text := openAndClose(t, dir)
	checkMode(t, dir, 0o700)
	if text != "" {
		t.Errorf("a folder of its own is warned of: %s", text)
	}

	empty := t.TempDir()
	waitForMode(t, empty, 0o755)
	if text := openAndClose(t, empty); text != "" {
		t.Errorf("an empty folder is warned of: %s", text)
	}
	checkMode(t, empty, 0o700)
}

// TestFilePermissionsAreRestricted checks files of an earlier version that every user may read.
func TestFilePermissionsAreRestricted(t *testing.T) {
	dir := t.TempDir()
	openAndClose(t, dir)
	waitForMode(t, dir, 0o755)
	waitForMode(t, filepath.Join(dir, store.DatabaseFile), 0o644)
	if text := openAndClose(t, dir); !strings.Contains(text, "chmod 700 "+dir) {
		t.Errorf("a folder that others may enter: %q", text)
	}
	checkMode(t, dir, 0o755)
	group := filepath.Join(dir, store.DatabaseFile)
	waitForMode(t, group, 0o640) // an operator's choice
	s, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	checkMode(t, group, 0o640)
}

// TestDataFolderOfAnotherUserIsRefused checks that a folder or a file of another user is refused, with any mode. Those
// of root pass: root reads everything anyway.
func TestDataFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const other = 12345
	for _, name := range []string{".", store.DatabaseFile, "deadman.lock", "nats-users", "nats-users/admin", "nats/jetstream/deep"} {
		dir := t.TempDir()
		openAndClose(t, dir)
		for _, folder := range []string{"nats-users", "nats/jetstream/deep"} {
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		given := filepath.Join(dir, name)
		if name == "nats-users/admin" {
			if err := os.WriteFile(given, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(given, other, other); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{dir, link} {
			s, err := store.Open(t.Context(), store.Options{DataDir: way})
			if err == nil {
				closeStore(t, s)
				t.Errorf("%s of another user: the node starts", name)
				continue
			}
			for _, part := range []string{given + " belongs to another user", "(12345)", "chown -hR 0 " + dir} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v does not contain %q", name, err, part)
				}
			}
		}
	}
}

// TestDataFolderWithLinks checks links in the data folder to files of another user, or in a circle.
func TestDataFolderWithLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	openAndClose(t, dir)
	for name, to := range map[string]string{"nats": elsewhere, "round": dir, "nowhere": filepath.Join(elsewhere, "none")} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if err != nil {
		t.Fatalf("with links to what is the user's own: %v", err)
	}
	closeStore(t, s)
	if err := os.Chown(elsewhere, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(t.Context(), store.Options{DataDir: dir}); err == nil {
		closeStore(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), elsewhere+" belongs to another user") {
		t.Errorf("a link leads to another user's folder: %v", err)
	}
}

// openAndClose checks the modes of all files while the store is open, and returns its log.
func openAndClose(t *testing.T, dir string) string {
	t.Helper()
	var output bytes.Buffer
	s, err := store.Open(t.Context(), store.Options{DataDir: dir, Log: slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 4 {
		t.Errorf("the database, its log, its index and the lock are not all there: %v", files)
	}
	for _, f := range files {
		checkMode(t, filepath.Join(dir, f.Name()), 0o600)
	}
	return output.String()
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has the mode %04o, want %04o", path, got, want)
	}
}

func waitForMode(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
