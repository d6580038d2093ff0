package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lockFile is held for as long as a process works on the data folder. The system lets go of
// it when the process ends, however it ends.
const lockFile = "deadman.lock"

// lockDir takes the data folder, or returns ErrLocked. Closing the file gives it back.
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
