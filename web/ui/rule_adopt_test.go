package ui_test

import (
	"net/url"
	"testing"

	"deadman/web"
)

// TestConvertToUIManaged checks that a rule from files is marked, and can be converted to one managed in the UI after a
// confirmation.
func TestConvertToUIManaged(t *testing.T) {
	t.Parallel()
	home := serve(t)
	callAPI(t, home, "PUT", "/rules/order-unshipped?bundle=file:orders", "application/yaml", orders, nil)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped")
	b.waitForText("Managed in the files of bundle file:orders")
	b.click("button[value=adopt]")
	b.waitForText("Convert rule order-unshipped to UI-managed?")
	b.checkAccessibility("take over?")
	b.screenshot("take-over")
	rule := func() web.Rule {
		t.Helper()
		var page web.Page[web.Rule]
		callAPI(t, home, "GET", "/rules?name=order-unshipped", "", "", &page)
		return page.Items[0]
	}
	if r := rule(); r.Bundle != "file:orders" {
		t.Errorf("before the confirmation it belongs to %q", r.Bundle)
	}

	// Its file is applied meanwhile.
	callAPI(t, home, "PUT", "/rules/order-unshipped?bundle=file:orders", "application/yaml", orders+"early: 2h\n", nil)
	b.allowedStatus = "412"
	b.click("button.main")
	b.waitForText("The rule was not converted")
	if r := rule(); r.Bundle != "file:orders" || r.Version != 2 {
		t.Errorf("it belongs to %q at version %d", r.Bundle, r.Version)
	}

	status, _ := requestPage(t, "POST", home+"/rules/order-unshipped", url.Values{"do": {"adopt"}, "sure": {"yes"}, "version": {"2"}}.Encode())
	if r := rule(); r.Bundle != "" || r.Version != 3 {
		t.Errorf("%d: it belongs to %q at version %d", status, r.Bundle, r.Version)
	}
	b.visit("/rules/order-unshipped")
	b.waitForText("version 3", "early: 2h", "Edit", "Delete")
}
