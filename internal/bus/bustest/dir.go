package bustest

import (
	"os"
	"testing"
	"time"
)

// removeWithin bounds how long a server that was shut down may still write into its folder.
const removeWithin = 10 * time.Second

// Dir is a folder for a server of this process, and is gone after the test. A server that was
// shut down may be about to make the folder of a batch that it was in the middle of, which
// t.TempDir would fail on.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "deadman-nats-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		again, late := time.NewTicker(10*time.Millisecond), time.After(removeWithin)
		defer again.Stop()
		for {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			select {
			case <-again.C:
			case <-late:
				t.Error(err)
				return
			}
		}
	})
	return dir
}
