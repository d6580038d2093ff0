package store

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestForeignLogIsRefused checks the write-ahead log of a crash: with its database it is applied, and beside another database
// or none it is refused.
func TestForeignLogIsRefused(t *testing.T) {
	t.Parallel()
	live := t.TempDir()
	s, err := Open(t.Context(), Options{DataDir: live})
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := CopyFile(t.Context(), live, backup); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO setting (name, value) VALUES ('later', 'yes')`); err != nil {
		t.Fatal(err)
	}
	crashed := t.TempDir()
	file := filepath.Join(crashed, DatabaseFile)
	copyOf(t, filepath.Join(live, DatabaseFile), file)
	copyOf(t, filepath.Join(live, DatabaseFile+logSuffix), file+logSuffix)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkLog(file, 0); err != nil {
		t.Errorf("the log of a crash: %v", err)
	}

	logged, err := changedAt(file + logSuffix)
	if err != nil {
		t.Fatal(err)
	}
	for written := logged; !written.After(logged); { // the file system has a coarse clock
		copyOf(t, backup, file)
		if written, err = changedAt(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkLog(file, 0); !errors.Is(err, ErrForeignLog) || !strings.Contains(err.Error(), "move the log and "+file+"-shm away") {
		t.Errorf("a restored database: %v", err)
	}
	if err := checkLog(file, maxCheckpoint); err != nil {
		t.Errorf("within the time of a checkpoint: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{DataDir: crashed}); !errors.Is(err, ErrForeignLog) || !strings.Contains(err.Error(), "missing or empty; restore the database") {
		t.Errorf("a log without a database: %v", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a database was created: %v", err)
	}
	copyOf(t, backup, file)
	if err := os.Truncate(file+logSuffix, logHeaderSize); err != nil {
		t.Fatal(err)
	}
	if err := checkLog(file, 0); err != nil {
		t.Errorf("a log without commits: %v", err)
	}
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
