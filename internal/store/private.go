package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// others is the part of a mode for users other than the owner and the group.
const others fs.FileMode = 0o007

// keepFolder creates the data folder for this user alone. It closes an existing empty folder that is open to others.
// For an open folder with files it logs a warning, as it may be open for a reason.
func keepFolder(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return err
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

// checkOwner refuses a data folder with any content that does not belong to this process's user or root: the owner
// could read and replace the tables, the streams and the secrets of NATS users. The targets of links are included. A
// folder that does not exist yet passes.
func checkOwner(dir string) error {
	if err := checkOwners(dir, make(map[string]bool)); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// checkOwners checks a folder or a file that is not in seen.
func checkOwners(dir string, seen map[string]bool) error {
	target, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || seen[target] {
		return err
	}
	seen[target] = true
	return filepath.WalkDir(target, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if user, foreign := foreignOwner(info); foreign {
			return fmt.Errorf("%s belongs to another user of this machine (%d), who may replace what is in it; give it to the user of the node (chown -hR %d %s), "+
				"or take another folder (--data-dir)", path, user, os.Geteuid(), target)
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			return checkOwners(path, seen)
		}
		return nil
	})
}

// keepFile creates the database file with access for this user alone. SQLite applies the file's mode to the log and the
// index beside it, and would otherwise use the umask. Files of an earlier version that are open to others are closed.
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

// isOpen reports whether other users may enter, read or write a file; a missing file is not open.
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
