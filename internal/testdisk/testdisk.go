// Package testdisk keeps the files of tests in memory. SQLite and the NATS server sync each transaction to the disk, so
// most tests that write wait for the disk: 6,000 events take a second in memory, and half a minute on a busy disk.
package testdisk

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	memory    = "/dev/shm" // the file system in memory of Linux
	prefix    = "deadman-tests-"
	lockFile  = ".lock"
	minFree   = 2 << 30 // bytes of the file system and of the machine's memory
	abandoned = time.Minute
)

// disk is the folder for temporary files on the disk while TMPDIR names the one in memory.
var disk string

// Disk returns the folder for temporary files on the disk: for files that outlive the tests.
func Disk() string {
	if disk != "" {
		return disk
	}
	return os.TempDir()
}

// Memory returns the folder for files in memory that the tests do not remove: those of a server that removes them itself. It is
// the folder on the disk if there is too little room in memory, or if TMPDIR was set.
func Memory() string {
	if disk == "" && os.Getenv("TMPDIR") != "" || !hasRoom(memory) {
		return Disk()
	}
	return memory
}

// Tests are the tests of a package with their temporary files in memory.
type Tests struct{ m *testing.M }

// InMemory returns the tests of a package with their temporary files in memory. They stay on the disk if the file system
// in memory has too little room, in the folder of TMPDIR if it is set, and if benchmarks run: they measure the disk, too.
func InMemory(m *testing.M) Tests { return Tests{m} }

// Run runs the tests and returns the exit code.
func (t Tests) Run() int {
	if os.Getenv("TMPDIR") != "" || runsBenchmarks() || !hasRoom(memory) {
		return t.m.Run()
	}
	removeAbandoned(memory)
	folder, release, err := claim(memory)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	disk = os.TempDir()
	if err := os.Setenv("TMPDIR", folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.m.Run()
}

// runsBenchmarks reports whether the flag -test.bench selects any.
func runsBenchmarks() bool {
	flag.Parse()
	selected := flag.Lookup("test.bench")
	return selected != nil && selected.Value.String() != ""
}

// hasRoom reports whether a file system in memory, and the memory, have minFree bytes left.
func hasRoom(root string) bool {
	var s syscall.Statfs_t
	if err := syscall.Statfs(root, &s); err != nil || s.Bavail*uint64(s.Bsize) < minFree { //nolint:gosec // a block has no negative size
		return false
	}
	return availableMemory() >= minFree
}

// availableMemory returns the bytes of memory that programs can still use; 0 if they are unknown.
func availableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}

// claim creates a folder with a lock beside it, which this process holds until release removes both.
func claim(root string) (folder string, release func(), err error) {
	lock, err := os.CreateTemp(root, prefix+"*"+lockFile)
	if err != nil {
		return "", nil, fmt.Errorf("test folder: %w", err)
	}
	folder = strings.TrimSuffix(lock.Name(), lockFile)
	release = func() {
		_ = os.RemoveAll(folder)
		_ = os.Remove(lock.Name())
		_ = lock.Close()
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err == nil {
		err = os.Mkdir(folder, 0o755) //nolint:gosec // Postgres has an account of its own
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("test folder: %w", err)
	}
	return folder, release, nil
}

// removeAbandoned removes the folders of processes that were killed.
func removeAbandoned(root string) {
	locks, _ := filepath.Glob(filepath.Join(root, prefix+"*"+lockFile)) // the pattern is well-formed
	for _, name := range locks {
		lock, err := os.Open(name)
		if err != nil {
			continue
		}
		info, err := lock.Stat()
		if err == nil && time.Since(info.ModTime()) > abandoned && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(strings.TrimSuffix(name, lockFile))
			_ = os.Remove(name)
		}
		_ = lock.Close()
	}
}
