//go:build unix

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// spareFiles is the number of open files of a node besides those of its HTTP connections.
const spareFiles = 1024

// machine checks the disk of the data folder, and the number of files that a process may open.
func machine(i *inspection) {
	if i.DatabaseURL == "" || i.NATSURL == "" {
		disk(i, i.DataDir)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		i.problem("open files", Unknown, err.Error(), "see ulimit -n")
		return
	}
	if need := uint64(i.Connections) + spareFiles; uint64(files.Max) < need { //nolint:unconvert // its type differs by system
		i.problem("open files", Warning, fmt.Sprintf("a process may open %d files, and a node needs up to %d (DEADMAN_CONNECTIONS is %d)", files.Max, need, i.Connections),
			"raise LimitNOFILE of the unit or ulimit -n, or lower DEADMAN_CONNECTIONS")
		return
	}
	i.ok("open files", "a process may open %d", files.Max)
}

// disk checks the free space of a folder, or of the nearest one above that exists.
func disk(i *inspection, folder string) {
	var s syscall.Statfs_t
	err := syscall.Statfs(folder, &s)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		err = syscall.Statfs(folder, &s)
	}
	i.room(folder, uint64(s.Bavail)*uint64(s.Bsize), uint64(s.Blocks)*uint64(s.Bsize), err) //nolint:unconvert // their types differ by system
}
