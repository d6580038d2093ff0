//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// foreignOwner returns the owner of a file, if the owner is neither this process's user nor root.
func foreignOwner(info fs.FileInfo) (user uint32, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return 0, false
	}
	return stat.Uid, true
}

// changedAt returns when the content, the name or the mode of a file changed last. A copy that keeps the time of its origin has the
// time of the copy here.
func changedAt(path string) (time.Time, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return time.Time{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return time.Unix(stat.Ctim.Unix()), nil
}
