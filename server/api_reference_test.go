package server_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"deadman/server"
)

// TestOperationsAreDocumented checks that the reference has exactly the operations of the API of a node, with their
// scopes.
func TestOperationsAreDocumented(t *testing.T) {
	t.Parallel()
	const page = "../docs/reference/api.md"
	rows := make(map[string]string) // scopes, by operation
	for _, m := range regexp.MustCompile("(?m)^\\| (`[A-Z]+ /.*?`) \\| ([a-z]+) \\|").FindAllStringSubmatch(read(t, page), -1) {
		for operation := range strings.SplitSeq(m[1], ", ") {
			rows[strings.Trim(operation, "`")] = m[2]
		}
	}
	answer := startReadyNode(t, server.Config{}).callRaw(http.MethodGet, "/openapi.json", "")
	var api struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	if err := json.Unmarshal(answer.body, &api); err != nil {
		t.Fatalf("%d %v", answer.status, err)
	}
	for path, operations := range api.Paths {
		for method, o := range operations {
			operation := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/api/v1")
			if scope := o.Security[0]["token"][0]; rows[operation] != scope {
				t.Errorf("%s: %s needs the scope %s, and the page has %q", page, operation, scope, rows[operation])
			}
			delete(rows, operation)
		}
	}
	for operation := range rows {
		t.Errorf("%s has a row for %s, and the API has no such operation", page, operation)
	}
}
