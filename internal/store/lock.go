package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lockFile is locked while a process uses the data folder. The operating system releases the lock as the process ends,
// even after a crash.
const lockFile = "deadman.lock"

// lockDir locks the data folder, or returns ErrLocked. Closing the file releases the lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	switch taken, err := tryLock(f); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	case !taken:
		return nil, errors.Join(fmt.Errorf(
			"%w: another deadman works on %s; stop it, or give this one another folder with --data-dir", ErrLocked, dir), f.Close())
	}
	return f, nil
}
