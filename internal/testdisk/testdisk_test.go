package testdisk

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"
)

// The folder of a process that was killed is removed by a later one; the folder of a running process stays.
func TestFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	root := t.TempDir()
	running, release, err := claim(root)
	if err != nil {
		t.Fatal(err)
	}
	killed, _, err := claim(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(killed+lockFile, killed+".held"); err != nil { // the lock of this process stays on the renamed file
		t.Fatal(err)
	}
	if err := os.WriteFile(killed+lockFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeAbandoned(root)
	if _, err := os.Stat(killed); err != nil {
		t.Errorf("a folder with a new lock: %v, want that it stays", err)
	}
	old := time.Now().Add(-2 * abandoned)
	for _, folder := range []string{running, killed} {
		if err := os.Chtimes(folder+lockFile, old, old); err != nil {
			t.Fatal(err)
		}
	}
	removeAbandoned(root)
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of a killed process: %v, want that it does not exist", err)
	}
	if _, err := os.Stat(running); err != nil {
		t.Errorf("the folder of a running process: %v", err)
	}
	release()
	if _, err := os.Stat(running); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a released folder: %v, want that it does not exist", err)
	}
}

// A file system with little room is not used.
func TestFilesStayOnTheDiskWithoutRoom(t *testing.T) {
	if hasRoom("/proc") { // it has no blocks
		t.Error("a file system without room is used")
	}
	if availableMemory() <= 0 {
		t.Error("the available memory is unknown")
	}
}
