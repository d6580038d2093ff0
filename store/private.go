package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
)

// others is what a mode gives to users of the machine who are neither the owner nor of the group.
const others fs.FileMode = 0o007

// keepFolder makes the data folder, for this user alone. A folder that is there and open to others is closed to
// them while it is empty. One with files in it may be open for a reason: that is a warning.
func keepFolder(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	open, err := isOpen(dir)
	if err != nil || !open {
		return err
	}
	has, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if len(has) == 0 && os.Chmod(dir, 0o700) == nil {
		return nil
	}
	log.Warn("the data folder is open to every user of this machine; its files are not, but close it with: chmod 700 "+dir, "folder", dir)
	return nil
}

// keepFile makes the database's file, which only this user may read and write: SQLite gives the mode of the file to the log and
// the index beside it, and would take that of the umask. Files of an earlier version that are open to others are closed to them.
func keepFile(file string, log *slog.Logger) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	for _, name := range []string{file, file + "-wal", file + "-shm", file + "-journal"} {
		open, err := isOpen(name)
		switch {
		case err != nil:
			return err
		case !open:
			continue
		}
		if err := os.Chmod(name, 0o600); err != nil {
			log.Warn("every user of this machine may read the database; have its owner close it with: chmod 600 "+name, "file", name, "err", err)
		}
	}
	return nil
}

// isOpen reports whether others may enter, read or write what has the name; what is not there is not open.
func isOpen(name string) (bool, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("data folder: %w", err)
	}
	return runtime.GOOS != "windows" && info.Mode().Perm()&others != 0, nil
}
