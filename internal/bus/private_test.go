//go:build unix

package bus_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"deadman/internal/bus/bustest"
)

// TestFilesOfStreamsAreOfThisUserAlone checks that only the node's user can read the files of streams, regardless of
// the umask.
func TestFilesOfStreamsAreOfThisUserAlone(t *testing.T) {
	dir := filepath.Join(bustest.Dir(t), "nats")
	defer syscall.Umask(syscall.Umask(0))
	b := connect(t, serve(t, dir))
	bind(t, b, "orders.created")
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", []byte("{}"), nil, ""); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %04o", path, info.Mode().Perm())
		}
		files++
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files: %v", files, err)
	}
}
