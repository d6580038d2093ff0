package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/server"
)

const (
	reportDue = `
name: report-due
entity: report
trigger: {schedule: "@stored", emit: {subject: reports.due}}
`
	reportLate = `
name: report-late
entity: report
trigger: {event: reports.due, key: string(event.customer)}
resolve: {event: reports.sent, key: string(event.customer)}
escalate: [{after: 1s, step: primary}]
slot: 1s
`
)

// storedSchedule is a schedule as GET /schedules/{rule}/{id} shows it.
type storedSchedule struct {
	ID      string
	Enabled bool
	Version int64
	NextAt  time.Time `json:"next_at"`
	LastAt  time.Time `json:"last_at"`
	Next    []time.Time
}

// storedTicks is the ticks of a schedule.
type storedTicks struct {
	Items []struct {
		Tick      time.Time
		DecidedAt time.Time `json:"decided_at"`
		EmittedAt time.Time `json:"emitted_at"`
		Outcome   string
		Missed    *int
		Attempts  int
		Reason    string
	}
	Next string
}

// changeSchedules sends lines of schedules, of which none is refused.
func (n *node) changeSchedules(lines string, headers ...string) (done struct{ Created, Updated, Deleted, Refused int }) {
	n.Helper()
	n.callExpecting(http.StatusOK, http.MethodPost, "/api/v1/schedules/bulk", lines, append(headers, "Content-Type", "application/x-ndjson")...).decode(n.T, &done)
	if done.Refused > 0 {
		n.Fatalf("%+v of %s", done, lines)
	}
	return done
}

// The ticks of a stored schedule emit events, of which another rule expects an effect. They are listed, with their
// outcomes, also when the schedule is gone.
func TestStoredSchedulesTick(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, c server.Config) {
		n := startReadyNode(t, c)
		n.saveRule(http.StatusCreated, "", reportDue)
		n.saveRule(http.StatusCreated, "", reportLate)
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintf(&lines, `{"rule": "report-due", "id": "c/%d", "schedule": "@every 1s", "data": {"customer": "c%d"}}`+"\n", i, i)
		}
		lines.WriteString(`{"rule": "report-due", "id": "off", "schedule": "@every 1s", "enabled": false}`)
		if done := n.changeSchedules(lines.String()); done.Created != 21 {
			t.Fatalf("%+v", done)
		}
		n.eventually("each schedule leads to an alert", func() bool {
			var raised list
			n.get("/api/v1/alerts?rule=report-late&limit=500", &raised)
			keys := make(map[string]bool)
			for _, a := range raised.Items {
				keys[a.Key] = true
			}
			return len(keys) == 20
		})
		const one = "/api/v1/schedules/report-due"
		var ticks, none storedTicks
		n.eventually("three emitted ticks", func() bool {
			n.get(one+"/ticks?id=c/7&outcome=emitted", &ticks)
			return len(ticks.Items) >= 3
		})
		for i, tick := range ticks.Items {
			if tick.Outcome != "emitted" || tick.Attempts < 1 || tick.DecidedAt.Before(tick.Tick) || tick.EmittedAt.Before(tick.DecidedAt) || tick.Missed == nil {
				t.Errorf("%+v", tick)
			}
			if i > 0 && ticks.Items[i-1].Tick.Sub(tick.Tick) != time.Duration(*ticks.Items[i-1].Missed+1)*time.Second {
				t.Errorf("%s comes before %s, and %d are missed", tick.Tick, ticks.Items[i-1].Tick, *ticks.Items[i-1].Missed)
			}
		}
		var page storedTicks
		n.get(fmt.Sprintf(one+"/ticks?id=c/7&limit=1&from=%s&to=%s", ticks.Items[2].Tick.Format(time.RFC3339), ticks.Items[0].Tick.Format(time.RFC3339)), &page)
		if len(page.Items) != 1 || !page.Items[0].Tick.Equal(ticks.Items[1].Tick) {
			t.Errorf("a page: %+v", page)
		}
		var s, off storedSchedule
		n.get(one+"?id=c/7", &s)
		if s.Version != 1 || s.LastAt.Before(ticks.Items[0].Tick) || len(s.Next) != 5 || !s.Next[0].Equal(s.NextAt) || !s.NextAt.After(s.LastAt) {
			t.Errorf("%+v", s)
		}
		n.get(one+"/off", &off)
		n.get(one+"/off/ticks", &none)
		if off.Enabled || !off.NextAt.IsZero() || !off.LastAt.IsZero() || len(none.Items) > 0 {
			t.Errorf("disabled: %+v, %+v", off, none)
		}
		n.callExpecting(http.StatusNoContent, http.MethodDelete, one+"?id=c/7", "")
		n.callExpecting(http.StatusNotFound, http.MethodGet, one+"?id=c/7", "")
		if n.get(one+"/ticks?id=c/7", &page); len(page.Items) < 3 {
			t.Errorf("after the deletion: %+v", page)
		}
	})
}

// Schedules of another tenant are not read, changed or listed, and an unknown rule is answered in the same way.
func (w *tenants) schedulesAreHidden(t *testing.T) {
	for tenant, token := range map[string][]string{"acme": w.acme, "zenith": w.zenith} {
		w.saveRule(http.StatusCreated, "", strings.NewReplacer("report-due", tenant+"-due", "reports.due", tenant+".due").Replace(reportDue), token...)
	}
	line := func(rule, rest string) string { return `{"rule": "` + rule + `", "id": "s1", ` + rest + "}\n" }
	const often = `"schedule": "@every 1s"`
	w.changeSchedules(line("acme-due", often), w.acme...)
	w.changeSchedules(line("zenith-due", often), w.zenith...)
	for name, token := range map[string][]string{"acme": w.acme, "zenith": w.zenith} {
		w.eventually("a tick of "+name, func() bool {
			var ticks storedTicks
			w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules/"+name+"-due/s1/ticks", "", token...).decode(t, &ticks)
			return len(ticks.Items) > 0
		})
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules/"+name+"-due/s1", "", token...)
		w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules?rule="+name+"-due", "", token...)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "?rule=RULE", ""},
		{"GET", "?rule=RULE&prefix=s", ""},
		{"GET", "/RULE/s1", ""},
		{"GET", "/RULE?id=s1", ""},
		{"GET", "/RULE/s1/ticks", ""},
		{"GET", "/RULE/ticks?id=s1", ""},
		{"PUT", "/RULE/s1", `{` + often + `}`},
		{"PUT", "/RULE?id=s1", `{` + often + `}`},
		{"DELETE", "/RULE/s1", ""},
		{"DELETE", "/RULE?id=s1", ""},
	} {
		at := func(rule string) reply {
			return w.callRaw(c.method, "/api/v1/schedules"+strings.ReplaceAll(c.path, "RULE", rule), c.body, append(w.acme, "Content-Type", "application/json")...)
		}
		there, gone := at("zenith-due"), at("zenith-nope")
		if there.status != http.StatusForbidden || string(there.body) != strings.ReplaceAll(string(gone.body), "zenith-nope", "zenith-due") {
			t.Errorf("%s %s: %d %s; an unknown rule: %d %s", c.method, c.path, there.status, there.body, gone.status, gone.body)
		}
	}
	for _, rest := range []string{`"schedule": "@daily"`, `"deleted": true`} {
		got := w.callRaw(http.MethodPost, "/api/v1/schedules/bulk", line("zenith-due", rest), append(w.acme, "Content-Type", "application/x-ndjson")...)
		if got.status != http.StatusOK || !strings.Contains(string(got.body), `"refused":1`) || !strings.Contains(string(got.body), "acme-*") {
			t.Errorf("%s: %d %s", rest, got.status, got.body)
		}
	}
	var kept storedSchedule
	w.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/schedules/zenith-due/s1", "", w.zenith...).decode(t, &kept)
	if kept.Version != 1 || !kept.Enabled {
		t.Errorf("zenith's schedule is %+v", kept)
	}
}
