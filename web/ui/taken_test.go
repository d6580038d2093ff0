package ui_test

import (
	"net/url"
	"strings"
	"testing"
)

// A new rule with a name that another has is not saved; that is said once, with the way to the other.
func TestNewRuleWithATakenName(t *testing.T) {
	home := serve(t)
	call(t, home, "PUT", "/rules/order-unshipped", "application/yaml", orders, nil)
	status, content := page(t, "POST", home+"/new-rule", url.Values{"text": {orders}, "version": {"0"}, "do": {"save"}}.Encode())
	if status != 409 || strings.Count(content, "It was not saved") != 1 || !strings.Contains(content, `there is a <a href="/rules/order-unshipped/edit">rule order-unshipped</a> already`) || strings.Contains(content, "PUT /rules") {
		t.Errorf("%d %s", status, content)
	}
}
