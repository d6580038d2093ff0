package futurejobs

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// tenantQuota is a quota with room for some jobs, which the rules of a prefix share.
type tenantQuota struct {
	prefix         string
	room           int64
	held, ending   int64
	grown, refused int64
}

var errNoRoom = errors.New("no room")

func (p *tenantQuota) Bytes() bool          { return false }
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

func (ps tenantQuotas) Tenant(string) string { return "" }

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
		ask := e.Ask.(Start)
		ask.Restart = true
		return e.asking(ask)
	}
	named := func(key string) Effect {
		e := start(rule, key, first)
		ask := e.Ask.(Start)
		ask.Named = true
		return e.asking(ask)
	}
	// beat puts a pending job off, or begins one; over: it ends the pending one, and begins another.
	beat := func(key string, over bool) Effect {
		return start(rule, key, first).asking(Beat{Play: func(j *Job) (Beaten, error) {
			begun := Job{Version: 1, Since: noon, FirstCheckAt: first}
			switch {
			case j == nil:
				return Beaten{Begin: &begun}, nil
			case over:
				return Beaten{End: &End{Outcome: "resolved"}, Begin: &begun}, nil
			}
			return Beaten{Job: j, Next: first.Add(time.Hour)}, nil
		}})
	}
	a, b := start(rule, "a", first).by(noon), start(rule, "b", first).by(noon)
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
		"what is pending ends and begins": {room: -3, effects: []Effect{beat("a", true).by(noon)}, pending: []string{"a"}, created: 1},
		"a new beat has no room":          {effects: []Effect{beat("a", false).by(noon)}, letters: 1, refusals: 1},
		"an end makes room":               {effects: []Effect{end(rule, "x").by(noon), a}, pending: []string{"x"}, created: 1},
		"an end beyond the quota":         {room: -1, effects: []Effect{end(rule, "x").by(noon), a}, pending: []string{"x"}, letters: 1, grown: -1, refusals: 1},
		"what begins and ends takes none": {room: 1, effects: []Effect{a, end(rule, "a").by(noon), b}, created: 2, grown: 1},
		"what the rule names":             {effects: []Effect{named("a")}, created: 1, grown: 1},
		"a person":                        {effects: []Effect{start(rule, "a", first)}, over: 1, refusals: 1},
		"another rule has its own":        {effects: []Effect{start(other, "a", first).by(noon)}, created: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			acme := &tenantQuota{prefix: "order-", room: c.room}
			pending := make(map[Ref]Job)
			for i, key := range c.pending {
				ref := Ref{RuleID: rule.ID, Key: key}
				pending[ref] = Job{ID: int64(i + 1), Ref: ref, Version: 1, CreatedAt: noon, Since: noon, NextCheckAt: first, FirstCheckAt: first}
			}
			net := FoldWithin(tenantQuotas{acme}, c.effects, Known{Pending: pending}, noon)
			if net.Created != c.created || len(net.Letters) != c.letters || len(net.Over) != c.over || int64(net.Kept) != c.kept || net.Refused != c.letters+c.over {
				t.Errorf("%d created, %d letters, %d over, %d kept: %+v", net.Created, len(net.Letters), len(net.Over), net.Kept, net.Tally)
			}
			for _, l := range net.Letters {
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
