package deadman_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman"
)

// The machine's clock is set back by five minutes, and ahead again, below a whole node. Jobs that are due are alerted all
// the while, and each step is.
func TestNodeSurvivesClockSetBack(t *testing.T) {
	t.Parallel()
	var offset atomic.Int64
	n := serve(t, deadman.Config{
		Rules: ruleFolder(t, map[string]string{"p.yaml": paymentRule}),
		Clock: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
	})
	alertsOf := func(key, status string) (found int) {
		var all list
		where := "key=" + key
		if key == "clock" {
			where = "rule=deadman" // by which the alerts of deadman itself are found
		}
		n.get("/api/v1/alerts?"+where, &all)
		for _, a := range all.Items {
			if a.Key == key && a.Status == status {
				found++
			}
		}
		return found
	}
	inOrder := func() bool {
		got := n.call(http.MethodGet, "/readyz?all", "")
		return !strings.Contains(string(got.body), "stepped")
	}
	begin := func(key string) {
		t.Helper()
		if status := n.ask(http.MethodPost, "/api/v1/jobs", `{"rule":"payment-unconfirmed","key":"`+key+`"}`, nil); status != http.StatusCreated {
			t.Fatalf("job %s: %d", key, status)
		}
		n.eventually("an alert of "+key, func() bool { return alertsOf(key, "firing") == 1 })
	}
	begin("before")
	for i, step := range []struct {
		name   string
		offset time.Duration
	}{{"set-back", -5 * time.Minute}, {"set-ahead", 0}} {
		offset.Store(int64(step.offset))
		if i == 0 {
			n.eventually("the clock is not in order", func() bool { return !inOrder() })
		}
		n.eventually("the step is alerted", func() bool { return alertsOf("clock", "firing") == i+1 })
		begin("while-" + step.name)
		n.eventually("the clock is in order", inOrder)
		n.eventually("the alert of the step is resolved", func() bool { return alertsOf("clock", "resolved") == i+1 })
		begin("after-" + step.name)
	}
}
