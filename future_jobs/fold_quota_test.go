package futurejobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
)

// tenantQuota is a quota for some jobs, shared by the rules of a prefix.
type tenantQuota struct {
	prefix         string
	room           int64
	bytes          bool
	held, ending   int64
	grown, refused int64
}

var errNoRoom = errors.New("no room")

func (p *tenantQuota) Bytes() bool          { return p.bytes }
func (p *tenantQuota) Room() int64          { return p.room - p.held }
func (p *tenantQuota) Refusal(string) error { return errNoRoom }
func (p *tenantQuota) Reserve(jobs int64) bool {
	if jobs > 0 && p.Room() < jobs {
		return false
	}
	p.held, p.ending = p.held+max(jobs, 0), p.ending+min(jobs, 0)
	return true
}

func (p *tenantQuota) Settle(reserved, grown, refused int64) {
	p.held, p.ending = p.held-max(reserved, 0), p.ending-min(reserved, 0)
	p.grown, p.refused = p.grown+grown, p.refused+refused
}

type tenantQuotas []*tenantQuota

func (ps tenantQuotas) KeepAlert(*alerts.Alert) {}
func (ps tenantQuotas) DropAlert(*alerts.Alert) {}

func (ps tenantQuotas) Tenant(rule string) string {
	for _, p := range ps {
		if strings.HasPrefix(rule, p.prefix) {
			return p.prefix
		}
	}
	return ""
}

func (ps tenantQuotas) OfJobs(rule string) (all []JobQuota) {
	for _, p := range ps {
		if strings.HasPrefix(rule, p.prefix) {
			all = append(all, p)
		}
	}
	return all
}

func TestFoldWithinQuotas(t *testing.T) {
	rule, other := orderRule(), &Rule{ID: 2, Version: 1, Name: "zenith-late", Entity: "order", Grid: Grid(time.Minute)}
	first := noon.Add(time.Hour)
	restart := func(key string) Effect {
		e := start(rule, key, first)
		start := e.Action.(Start)
		start.Restart = true
		return e.withAction(start)
	}
	named := func(key string) Effect {
		e := start(rule, key, first)
		start := e.Action.(Start)
		start.Named = true
		return e.withAction(start)
	}
	// beat delays a pending job, or begins one; with over, it ends the pending one and begins another.
	beat := func(key string, over bool) Effect {
		return start(rule, key, first).withAction(Heartbeat{Play: func(j *Job) (HeartbeatResult, error) {
			begun := Job{Version: 1, Since: noon, FirstCheckAt: first}
			switch {
			case j == nil:
				return HeartbeatResult{Begin: &begun}, nil
			case over:
				return HeartbeatResult{End: &End{Outcome: "resolved"}, Begin: &begun}, nil
			}
			return HeartbeatResult{Job: j, Next: first.Add(time.Hour)}, nil
		}})
	}
	a, b := start(rule, "a", first).at(noon), start(rule, "b", first).at(noon)
	cases := map[string]struct {
		room                   int64
		effects                []Effect
		pending                []string
		created, letters, over int
		kept, grown, refusals  int64
	}{
		"room for all":                    {room: 2, effects: []Effect{a, b}, created: 2, grown: 2},
		"room for one":                    {room: 1, effects: []Effect{a, b}, created: 1, letters: 1, grown: 1, refusals: 1},
		"no room":                         {effects: []Effect{a}, letters: 1, refusals: 1},
		"less than no room":               {room: -3, effects: []Effect{a}, letters: 1, refusals: 1},
		"what is pending is kept":         {effects: []Effect{a}, pending: []string{"a"}, kept: 1},
		"what is pending begins anew":     {room: -3, effects: []Effect{restart("a")}, pending: []string{"a"}, created: 1},
		"what is pending is put off":      {room: -3, effects: []Effect{beat("a", false)}, pending: []string{"a"}},
		"what is pending ends and begins": {room: -3, effects: []Effect{beat("a", true).at(noon)}, pending: []string{"a"}, created: 1},
		"a new beat has no room":          {effects: []Effect{beat("a", false).at(noon)}, letters: 1, refusals: 1},
		"an end makes room":               {effects: []Effect{end(rule, "x").at(noon), a}, pending: []string{"x"}, created: 1},
		"an end beyond the quota":         {room: -1, effects: []Effect{end(rule, "x").at(noon), a}, pending: []string{"x"}, letters: 1, grown: -1, refusals: 1},
		"what begins and ends takes none": {room: 1, effects: []Effect{a, end(rule, "a").at(noon), b}, created: 2, grown: 1},
		"what the rule names":             {effects: []Effect{named("a")}, created: 1, grown: 1},
		"a person":                        {effects: []Effect{start(rule, "a", first)}, over: 1, refusals: 1},
		"another rule has its own":        {effects: []Effect{start(other, "a", first).at(noon)}, created: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			acme := &tenantQuota{prefix: "order-", room: c.room}
			pending := make(map[Ref]Job)
			for i, key := range c.pending {
				ref := Ref{RuleID: rule.ID, Key: key}
				pending[ref] = Job{ID: int64(i + 1), Ref: ref, Version: 1, CreatedAt: noon, Since: noon, NextCheckAt: first, FirstCheckAt: first}
			}
			net := FoldWithin(Bounds{Quotas: tenantQuotas{acme}}, c.effects, FoldInput{Pending: pending}, noon)
			if net.Created != c.created || len(net.DeadLetters) != c.letters || len(net.Over) != c.over || int64(net.Kept) != c.kept || net.Refused != c.letters+c.over {
				t.Errorf("%d created, %d letters, %d over, %d kept: %+v", net.Created, len(net.DeadLetters), len(net.Over), net.Kept, net.EffectCounts)
			}
			for _, l := range net.DeadLetters {
				if l.Rule != rule.Name || l.Part != Triggers || l.Reason != errNoRoom.Error() {
					t.Errorf("letter %+v", l)
				}
			}
			if keeps := max(c.grown, 0); acme.held > keeps || acme.ending != min(c.grown, 0) {
				t.Errorf("the run holds %d and ends %d, and comes to %d", acme.held, acme.ending, c.grown)
			}
			net.Use()
			if acme.held != 0 || acme.ending != 0 {
				t.Errorf("%d are held and %d end after the run", acme.held, acme.ending)
			}
			if acme.grown != c.grown || acme.refused != c.refusals {
				t.Errorf("the quota counts %d, and %d refusals; want %d and %d", acme.grown, acme.refused, c.grown, c.refusals)
			}
		})
	}
}

// letterRoom has room for some dead letters.
type letterRoom int

func (r *letterRoom) Take(string) bool {
	*r--
	return *r >= 0
}

// Refused events beyond the room are summarized by rule, and their jobs are not remembered, also within the run.
func TestFoldSummarizesDeadLetters(t *testing.T) {
	rule, first := orderRule(), noon.Add(time.Hour)
	room := letterRoom(2)
	var effects []Effect
	for i := range 5 {
		e := start(rule, fmt.Sprint(i), first).at(noon)
		e.Event.Seq, e.Event.Data = uint64(20-i), []byte("body")
		effects = append(effects, e)
	}
	effects = append(effects, start(rule, "hand", first)) // a person's request has no letter
	for _, key := range []string{"1", "2"} {
		effects = append(effects, end(rule, key).at(noon))
	}
	net := FoldWithin(Bounds{Quotas: tenantQuotas{{prefix: "order-"}}, Letters: &room}, effects, FoldInput{}, noon)
	if len(net.DeadLetters) != 3 || net.Refused != 6 || len(net.Over) != 1 || room != -3 {
		t.Fatalf("%d letters, %d refused, room %d: %+v", len(net.DeadLetters), net.Refused, room, net.DeadLetters)
	}
	for i, l := range net.DeadLetters[:2] {
		if l.Summarized != 0 || l.Event.Seq != uint64(20-i) || string(l.Event.Data) != "body" {
			t.Errorf("letter %d: %+v", i, l)
		}
	}
	if l := net.DeadLetters[2]; l.Summarized != 3 || l.Event.Seq != 16 || l.LastSeq != 18 || l.Event.Data != nil || l.Size != 4 || l.Reason != errNoRoom.Error() {
		t.Errorf("summary: %+v", l)
	}
	if net.Remembered != 1 || net.Missed != 1 || len(net.Remember) != 1 || net.Remember[0].Key != "1" {
		t.Errorf("ends: %+v, %+v", net.EffectCounts, net.Remember)
	}
	if len(net.Unbegun) != 6 {
		t.Errorf("%d jobs did not begin, want 6", len(net.Unbegun))
	}
	for _, u := range net.Unbegun {
		if remembered := u.Key == "0" || u.Key == "1"; remembered == u.Until.IsZero() {
			t.Errorf("job %q is remembered until %s", u.Key, u.Until)
		}
	}
}

func TestScarce(t *testing.T) {
	rule, other := orderRule(), &Rule{ID: 2, Name: "zenith-late"}
	effects := []Effect{start(rule, "a", noon), start(rule, "b", noon), start(other, "a", noon)}
	if scarce := Scarce(nil, effects); scarce != nil {
		t.Error("without quotas something is scarce")
	}
	if scarce := Scarce(tenantQuotas{{prefix: "order-", room: 3}}, effects); scarce != nil {
		t.Error("with room for all something is scarce")
	}
	scarce := Scarce(tenantQuotas{{prefix: "order-", room: 1}, {prefix: "zenith-", room: 9}}, effects)
	if scarce == nil || !scarce(rule) || scarce(other) {
		t.Error("the rule without room is scarce, and the other is not")
	}
}

// Bytes of jobs are counted when jobs begin, change and end; beyond the quota no job begins, and pending jobs
// continue.
func TestFoldCountsBytes(t *testing.T) {
	rule, first := orderRule(), noon.Add(time.Hour)
	sized := func(key string, bytes int) Effect {
		e := start(rule, key, first).at(noon)
		start := e.Action.(Start)
		start.Job.Event = make([]byte, bytes)
		return e.withAction(start)
	}
	learn := func(key string, bytes int) Effect {
		return start(rule, key, first).at(noon).withAction(Update{Merge: func(json.RawMessage) (json.RawMessage, error) { return make([]byte, bytes), nil }})
	}
	cases := map[string]struct {
		room            int64
		effects         []Effect
		pending         int // bytes of the pending job "p"
		created, letter int
		grown           int64
	}{
		"room for all":            {room: 100, effects: []Effect{sized("a", 60), sized("b", 30)}, created: 2, grown: 90},
		"the last may be larger":  {room: 100, effects: []Effect{sized("a", 60), sized("b", 90), sized("c", 1)}, created: 2, letter: 1, grown: 150},
		"an end makes room":       {effects: []Effect{end(rule, "p").at(noon), sized("a", 10)}, pending: 40, created: 1, grown: -30},
		"an update counts":        {effects: []Effect{learn("p", 70)}, pending: 40, grown: 70},
		"an update, then an end":  {effects: []Effect{learn("p", 70), end(rule, "p").at(noon)}, pending: 40, grown: -40},
		"begins, learns and ends": {room: 100, effects: []Effect{sized("a", 60), learn("a", 70), end(rule, "a").at(noon)}, created: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			acme := &tenantQuota{prefix: "order-", room: c.room, bytes: true}
			pending := make(map[Ref]Job)
			if c.pending > 0 {
				ref := Ref{RuleID: rule.ID, Key: "p"}
				pending[ref] = Job{ID: 1, Ref: ref, Version: 1, CreatedAt: noon.Add(-time.Hour), Since: noon.Add(-time.Hour), NextCheckAt: first, FirstCheckAt: first, Event: make([]byte, c.pending)}
			}
			net := FoldWithin(Bounds{Quotas: tenantQuotas{acme}}, c.effects, FoldInput{Pending: pending}, noon)
			net.Use()
			if net.Created != c.created || len(net.DeadLetters) != c.letter || acme.grown != c.grown {
				t.Errorf("%d created, %d letters, grown by %d: %+v", net.Created, len(net.DeadLetters), acme.grown, net.EffectCounts)
			}
		})
	}
}

// The rules of a tenant write a bounded part of one event. Beyond it, the event becomes a dead letter of that rule
// alone, and a heartbeat counts without its body.
func TestRulesOfTenantShareEvent(t *testing.T) {
	first, body := noon.Add(time.Hour), make([]byte, shareBytes/4)
	shared := &Event{Stream: "S", Subject: "s", Seq: 7, At: noon, Data: body}
	actionOf := func(id int32, name, key string, event *Event, action Action) Effect {
		r := &Rule{ID: id, Version: 1, Name: name, Entity: "order", Grid: Grid(time.Minute)}
		return Effect{Rule: r, Ref: Ref{RuleID: id, Key: key}, Event: event, Action: action}
	}
	begin := func(id int32, name string, event *Event) Effect {
		return actionOf(id, name, "k", event, Start{Job: Job{Version: 1, Since: noon, FirstCheckAt: first, Event: body}, Restart: id == 90})
	}
	beat := func(body []byte) func(*Job) (HeartbeatResult, error) {
		return func(*Job) (HeartbeatResult, error) {
			return HeartbeatResult{Begin: &Job{Version: 1, Since: noon, FirstCheckAt: first, Event: body}}, nil
		}
	}
	var effects []Effect
	for id := range int32(6) {
		effects = append(effects, begin(id+1, fmt.Sprintf("acme-%d", id), shared))
	}
	update := Update{Patch: body, Merge: func(json.RawMessage) (json.RawMessage, error) { return body, nil }}
	effects = append(effects,
		begin(90, "acme-again", shared), // pending: it continues
		actionOf(91, "acme-learns", "k", shared, update),
		actionOf(92, "acme-unmet", "k", shared, update), // no pending job: nothing to write
		actionOf(93, "acme-beats", "k", shared, Heartbeat{Play: beat(body), Bare: beat(nil)}),
		actionOf(94, "acme-ends", "k", shared, End{Outcome: "resolved"}),
		begin(20, "zenith-a", shared), begin(21, "plain", shared))
	next := *shared
	effects = append(effects, begin(30, "acme-next", &next)) // another event

	quotas := tenantQuotas{{prefix: "acme-", room: 100}, {prefix: "zenith-", room: 100}}
	pending := make(map[Ref]Job)
	for _, id := range []int32{90, 91, 94} {
		ref := Ref{RuleID: id, Key: "k"}
		pending[ref] = Job{ID: int64(id), Ref: ref, Version: 1, CreatedAt: noon.Add(-time.Hour), Since: noon.Add(-time.Hour), NextCheckAt: first, FirstCheckAt: first}
	}
	scarce := Scarce(quotas, effects)
	if scarce == nil || !scarce(effects[0].Rule) || scarce(effects[len(effects)-2].Rule) {
		t.Error("the jobs of the tenant alone are to be looked up")
	}
	if Scarce(quotas, effects[:4]) != nil {
		t.Error("an event that has room for all makes something scarce")
	}
	net := FoldWithin(Bounds{Quotas: quotas}, effects, FoldInput{Pending: pending}, noon)
	var refused []string
	for _, l := range net.DeadLetters {
		refused = append(refused, l.Rule+" "+string(l.Part))
		if !strings.Contains(l.Reason, "acme-*") || !strings.Contains(l.Reason, "4194304 bytes") || !strings.Contains(l.Reason, "retry") {
			t.Error(l.Reason)
		}
	}
	if diff := cmp.Diff([]string{"acme-4 trigger", "acme-5 trigger", "acme-again trigger", "acme-learns update"}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if net.Restarted != 0 || net.Ended != 1 || net.Missed != 1 || net.Created != 8 {
		t.Errorf("%+v", net.EffectCounts)
	}
	for _, j := range net.Create {
		if (j.RuleID == 93) != (j.Event == nil) {
			t.Errorf("job of rule %d has %d bytes", j.RuleID, len(j.Event))
		}
	}
}
