package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// The restore condition is met after a successful comparison, and fails before.
func TestNodeReportsMissingComparison(t *testing.T) {
	t.Parallel()
	c := comparison{log: slog.New(slog.DiscardHandler)}
	if got := c.condition(); got.OK || !strings.Contains(got.Detail, "after the start of the node") {
		t.Errorf("before the first comparison: %+v", got)
	}
	silent := errors.New("the broker does not answer")
	c.note(silent)
	if got := c.condition(); got.OK || !errors.Is(got.Err, silent) {
		t.Errorf("after one that failed: %+v", got)
	}
	c.note(nil)
	if got := c.condition(); !got.OK {
		t.Errorf("after one that succeeded: %+v", got)
	}
	c.note(silent)
	if got := c.condition(); got.OK {
		t.Errorf("after a later one that failed: %+v", got)
	}
}
