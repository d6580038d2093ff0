package ui_test

import (
	"net/url"
	"strings"
	"testing"
)

// TestNewRuleWithExistingName checks that a new rule with an existing name is refused once, with a link to the existing
// rule.
func TestNewRuleWithExistingName(t *testing.T) {
	t.Parallel()
	home := serve(t)
	callAPI(t, home, "PUT", "/rules/order-unshipped", "application/yaml", orders, nil)
	status, content := requestPage(t, "POST", home+"/new-rule", url.Values{"text": {orders}, "version": {"0"}, "do": {"save"}}.Encode())
	if status != 409 || strings.Count(content, "The rule was not saved") != 1 || !strings.Contains(content, `<a href="/rules/order-unshipped/edit">rule order-unshipped</a> already exists`) || strings.Contains(content, "PUT /rules") {
		t.Errorf("%d %s", status, content)
	}
}
