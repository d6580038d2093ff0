//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"
)

// foreignOwner returns the owner of a file, if the owner is neither this process's user nor root.
func foreignOwner(info fs.FileInfo) (user uint32, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return 0, false
	}
	return stat.Uid, true
}
