package bustest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// LogIn is the address of the server of a node with a user of it and its secret, as the data
// folder of the node has it. Without such a folder, the server is elsewhere, and the address is
// returned as it is.
func LogIn(t testing.TB, dataDir, url, user string) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(dataDir, "nats-users", user))
	if errors.Is(err, fs.ErrNotExist) {
		return url
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(url, "://", "://"+user+":"+strings.TrimSpace(string(secret))+"@", 1)
}
