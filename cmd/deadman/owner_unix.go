//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner rejects a file or folder that users other than this one and root own or can write to. Such a user could
// redirect tokens and events to another address.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("%s: unknown owner", path)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user (%d) and is ignored, because it could redirect your token", path, stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable by other users (mode %04o) and could redirect your token; fix it with: chmod go-w %s",
			path, info.Mode().Perm(), path)
	}
	return nil
}
