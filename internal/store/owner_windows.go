package store

import (
	"io/fs"
	"os"
	"time"
)

// foreignOwner always reports false: Windows files have no numeric owners.
func foreignOwner(fs.FileInfo) (user uint32, foreign bool) { return 0, false }

// changedAt returns when the content of a file changed last.
func changedAt(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
