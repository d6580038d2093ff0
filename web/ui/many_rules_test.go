package ui_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/internal/longtest"
)

// TestManyRules checks that the overview covers any number of rules, with the most severe first, and so does the list
// of rules over all its pages.
func TestManyRules(t *testing.T) {
	longtest.Only(t, "it has 600 rules")
	t.Parallel()
	quiet := make([]string, 600)
	home := serve(t)
	for i := range quiet {
		quiet[i] = fmt.Sprintf("rule-%03d", i)
		callAPI(t, home, "POST", "/rules", "application/yaml", strings.Replace(orders, "order-unshipped", quiet[i], 1)+"enabled: false\n", nil)
	}
	callAPI(t, home, "POST", "/rules", "application/yaml", paymentRule, nil) // with an error
	callAPI(t, home, "POST", "/rules", "application/yaml", strings.NewReplacer("payment-missing", "zz-critical", "payments.", "zz.", "severity: error", "severity: critical").Replace(paymentRule), nil)
	publishEvents(t, home, "payments.asked", "1", "2", "3")
	publishEvents(t, home, "zz.asked", "1", "2")
	waitForOpenAlerts(t, home, 5)

	rows := regexp.MustCompile(`<tr id="rule-([^"]+)"`)
	names := func(content string) (all []string) {
		for _, m := range rows.FindAllStringSubmatch(content, -1) {
			all = append(all, m[1])
		}
		return all
	}
	var now string
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) { // jobs are counted only while clients ask
		_, now = requestPage(t, "GET", home+"/", "")
		if all := names(now); len(all) == 15 && all[0] == "zz-critical" && all[1] == "payment-missing" &&
			strings.Contains(now, "5 pending checks") && strings.Contains(now, "All 602 rules") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the front page is not of all rules: %v\n%s", names(now), now)
		}
	}
	var listed []string
	for at := "/rules"; at != ""; {
		_, content := requestPage(t, "GET", home+at, "")
		listed = append(listed, names(content)...)
		_, next, _ := strings.Cut(content, `<a href="/rules?cursor=`)
		if number, _, is := strings.Cut(next, `" rel="next"`); is {
			at = "/rules?cursor=" + number
		} else {
			at = ""
		}
	}
	want := append([]string{"payment-missing", "zz-critical"}, quiet...)
	if fmt.Sprint(listed) != fmt.Sprint(want) {
		t.Errorf("the list has %d rules, in the order %v", len(listed), listed)
	}
	if status, content := requestPage(t, "GET", home+"/rules?cursor=x", ""); status != 400 || !strings.Contains(content, "Invalid page address") {
		t.Errorf("a bad cursor: %d %s", status, content)
	}
}
