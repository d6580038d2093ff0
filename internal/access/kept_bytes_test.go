package access

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"deadman/alerts"
)

func TestQuotaOfKeptAlerts(t *testing.T) {
	var q Quotas
	raised := func(rule string) *alerts.Alert {
		a := &alerts.Alert{Rule: rule}
		a.Event, a.State = json.RawMessage(`{"id": 1}`), json.RawMessage(`{"n": 2}`)
		return a
	}
	free := raised("acme-late")
	if q.KeepAlert(free); free.BodiesOverQuota || free.Event == nil {
		t.Errorf("without quotas: %+v", free)
	}
	size := free.StreamSize()
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitKeptAlertBytes: 2 * size}}}, 0)
	used := func() int64 { return q.Uses("")[0].Use[atKeptAlertBytes].Used }
	for i, whole := range []bool{true, true, false} {
		a := raised("acme-late")
		q.KeepAlert(a)
		if a.BodiesOverQuota == whole || (a.Event != nil) != whole || (a.State != nil) != whole {
			t.Errorf("alert %d: %+v, want its bodies: %t", i, a, whole)
		}
	}
	other := raised("zenith-late")
	if q.KeepAlert(other); other.BodiesOverQuota {
		t.Error("the quota of a prefix applies to another")
	}
	if q.Problem("acme-late", "acme-") == "" {
		t.Error("the rule has no problem")
	}
	bare := &alerts.Alert{Rule: "acme-late"}
	if q.KeepAlert(bare); bare.BodiesOverQuota {
		t.Error("an alert that never had bodies is marked")
	}
	done := q.Take()[0]
	if want := 2*size + 2*bare.StreamSize(); done.Spent[SpentKeptAlertBytes] != want || used() != want || done.Refused[LimitKeptAlertBytes] != 1 {
		t.Errorf("%+v and %d used, want %d and one refusal", done, used(), want)
	}
	// A count of the database replaces that of the node, and a higher limit admits bodies again.
	q.Learn(Learned{Spent: map[string]Spent{"acme-": {SpentKeptAlertBytes: size}}})
	if used() != size {
		t.Errorf("%d used, want %d", used(), size)
	}
	again := raised("acme-late")
	if q.KeepAlert(again); again.BodiesOverQuota {
		t.Error("an alert with room lost its bodies")
	}
	if q.DropAlert(again); used() != size {
		t.Errorf("%d used after an alert that was not stored, want %d", used(), size)
	}
}

func TestQuotaOfKeptAnswers(t *testing.T) {
	var q Quotas
	if err := q.MayKeepAnswer("acme-"); err != nil {
		t.Errorf("without quotas: %v", err)
	}
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitKeptAnswerBytes: answerSize + 100}}}, 0)
	q.KeepAnswer("acme-", 99)
	q.KeepAnswer("zenith-", 1<<30)
	if err := q.MayKeepAnswer("acme-"); err != nil {
		t.Errorf("with a byte of room: %v", err)
	}
	q.KeepAnswer("acme-", 0)
	if err := q.MayKeepAnswer("acme-"); !errors.Is(err, ErrQuota) {
		t.Errorf("without room: %v", err)
	}
	if done := q.Take()[0]; done.Spent[SpentKeptAnswerBytes] != 2*answerSize+99 || done.Refused[LimitKeptAnswerBytes] != 1 {
		t.Errorf("%+v", done)
	}
}

func TestQuotaOfKeptPings(t *testing.T) {
	var q Quotas
	if !q.KeepPingBody("acme-1", 1<<30) {
		t.Error("without quotas, a body is not kept")
	}
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitKeptPingBytes: 100}}}, 0)
	for i, c := range []struct {
		rule  string
		bytes int
		kept  bool
	}{{"zenith-1", 1 << 30, true}, {"acme-1", 99, true}, {"acme-2", 10, true}, {"acme-1", 1, false}} {
		if kept := q.KeepPingBody(c.rule, c.bytes); kept != c.kept {
			t.Errorf("step %d: kept %v", i, kept)
		}
	}
	if text := q.Problem("acme-1", "acme-"); !strings.Contains(text, "log of pings") {
		t.Errorf("the rule shows %q", text)
	}
	q.Learn(Learned{}) // not counted this time
	if q.KeepPingBody("acme-1", 1) {
		t.Error("a body is kept before the next count")
	}
	count := func(bytes int64) {
		q.Learn(Learned{PingBytes: map[string]int64{"acme-1": bytes, "acme-gone": 39, "zenith-1": 1 << 30}})
	}
	q.CountPingBodies("")
	count(60)
	if !q.KeepPingBody("acme-1", 1) || q.KeepPingBody("acme-1", 1) {
		t.Error("the count of the database is not in use")
	}
	q.CountPingBodies("")
	count(50)
	q.CountPingBodies("")
	if !q.KeepPingBody("acme-1", 11) { // while the database counts
		t.Error("a body within the quota is not kept")
	}
	q.Set([]Quota{{Prefix: "acme-", Set: map[Limited]int64{LimitKeptPingBytes: 99}}}, 0)
	count(50)
	if q.KeepPingBody("acme-1", 1) {
		t.Error("a body that came during the count is not counted")
	}
	if done := q.Take()[0]; done.Refused[LimitKeptPingBytes] != 4 {
		t.Errorf("%+v", done)
	}
}
