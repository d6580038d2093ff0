package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file for a backup has the secrets of a deployment. In a shared folder another user may have created any file that can be
// guessed: it is neither written nor followed, and a file that appears meanwhile is not replaced.
func TestPartialFileInSharedFolder(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "backup.tar"), filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("victim"), 0o600), os.Symlink(victim, path+".partial")); err != nil {
		t.Fatal(err)
	}
	write := func() *partialFile {
		t.Helper()
		f, err := createFile(io.Discard, path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, "secret"); err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := write(), write()
	if size, err := first.complete(); err != nil || size != 6 {
		t.Errorf("%d bytes, %v; want 6", size, err)
	}
	if _, err := second.complete(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second file replaces the first one: %v", err)
	}
	first.discard()
	second.discard()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file that its owner alone can read", info, err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "victim" {
		t.Errorf("another file has %q, %v", text, err)
	}
	if left, err := filepath.Glob(path + ".partial-*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
