package ui_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestSearchParts checks that the part of an alert's id shown by the command line is enough to find it, and that a text
// too long for a key is reported once.
func TestSearchParts(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "k")
	id := waitForOpenAlerts(t, home, 1)[0].ID.String()
	for query, is := range map[string]bool{
		id: true, id[len(id)-8:]: true, strings.ToUpper(id[len(id)-8:]): true, id[:13]: true,
		id[len(id)-3:]: false, id[9:22]: false,
	} {
		if status, content := requestPage(t, "GET", home+"/find?q="+query, ""); status != http.StatusOK || strings.Contains(content, "No rule, alert or key matches") == is {
			t.Errorf("%s: %d %s", query, status, content)
		}
	}
	for _, long := range []string{strings.Repeat("x", 600), "order+" + strings.Repeat("x", 600), strings.Repeat("x", 3000), "order-unshipped/" + strings.Repeat("x", 600)} {
		status, content := requestPage(t, "GET", home+"/find?q="+long, "")
		if status != http.StatusOK || strings.Count(content, "512 bytes") != 1 || strings.Contains(content, "query") {
			t.Errorf("%d bytes: %d %s", len(long), status, content)
		}
	}
	if status, content := requestPage(t, "GET", home+"/find?q=order+"+strings.Repeat("x", 510), ""); status != http.StatusOK || !strings.Contains(content, "No rule, alert or key matches") {
		t.Errorf("a key that is as long as it may be: %d %s", status, content)
	}
}
