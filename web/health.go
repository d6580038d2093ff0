package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"deadman/internal/access"
)

// sayAgain is how often a condition that stays broken is logged at most, for errors that
// differ each time.
const sayAgain = time.Minute

// Condition is one thing that has to be so for a node to do all that it is there for.
type Condition struct {
	Name   string `json:"name"` // its kind, such as database, nats, streams, sweep, serving; it is public
	OK     bool   `json:"ok"`
	Vital  bool   `json:"vital"`            // without it the node can answer nobody
	Detail string `json:"detail,omitempty"` // for people who may read; a sentence without secrets
	Err    error  `json:"-"`                // why it is not OK, for the log alone
}

// Health looks at all conditions. A node that drains has one that is not OK.
type Health func(ctx context.Context) []Condition

// Readiness is what /readyz answers. A node that is ready may still have something out of order:
// it goes on with what it can do, and whoever sends it requests should do so, too.
type Readiness struct {
	Ready      bool        `json:"ready"` // all that is vital is in order
	Fine       bool        `json:"fine"`  // everything is
	Conditions []Condition `json:"conditions"`
}

func (a *api) readiness(ctx context.Context) Readiness {
	out := Readiness{Ready: true, Fine: true, Conditions: a.Health(ctx)}
	for _, c := range out.Conditions {
		out.Ready = out.Ready && (c.OK || !c.Vital)
		out.Fine = out.Fine && c.OK
	}
	if ctx.Err() == nil { // else the client left, and that may be all that is wrong
		a.logChanges(ctx, out.Conditions)
	}
	return out
}

// conditionLog is what was logged of the conditions that are not OK, by name.
type conditionLog struct {
	mu    sync.Mutex
	known map[string]loggedCondition
}

type loggedCondition struct {
	text string
	at   time.Time
}

// logChanges logs why conditions are not OK, once and not with each probe, and that they
// are OK again.
func (a *api) logChanges(ctx context.Context, conditions []Condition) {
	a.troubles.mu.Lock()
	defer a.troubles.mu.Unlock()
	now := a.Now()
	for _, c := range conditions {
		last, known := a.troubles.known[c.Name]
		switch {
		case c.OK && known:
			delete(a.troubles.known, c.Name)
			a.Log.InfoContext(ctx, "in order again", "condition", c.Name)
		case c.OK || c.Err == nil:
		case !known || (last.text != c.Err.Error() && now.Sub(last.at) >= sayAgain):
			a.troubles.known[c.Name] = loggedCondition{c.Err.Error(), now}
			a.Log.ErrorContext(ctx, "not in order", "condition", c.Name, "err", c.Err)
		}
	}
}

// verdictAge is how old a verdict may be that is given to everybody.
const verdictAge = time.Second

// verdict is the last readiness that was found.
type verdict struct {
	mu    sync.Mutex
	found time.Time // zero: none was
	last  Readiness
}

// lastReadiness is the readiness of at most verdictAge ago. Of several that ask at once, one makes the node look; that it
// leaves meanwhile does not matter to the others.
func (a *api) lastReadiness(ctx context.Context) Readiness {
	a.verdict.mu.Lock()
	defer a.verdict.mu.Unlock()
	if age := a.Now().Sub(a.verdict.found); a.verdict.found.IsZero() || age < 0 || age >= verdictAge {
		a.verdict.last = a.readiness(context.WithoutCancel(ctx))
		a.verdict.found = a.Now()
	}
	return a.verdict.last
}

// public is what everybody is told: the verdict, and which kinds of conditions are not OK. Details name sources, channels,
// streams and rules.
func (r Readiness) public() Readiness {
	broken := []Condition{}
	for _, c := range r.Conditions {
		if !c.OK {
			broken = append(broken, Condition{Name: c.Name, Vital: c.Vital})
		}
	}
	r.Conditions = broken
	return r
}

// seesDetails reports whether a request is shown the details of conditions, which are about all rules.
func (a *api) seesDetails(r *http.Request) bool {
	v := principalOf(r.Context()) // of a page that asks
	if v.anonymous() {
		var err error
		if v, err = a.visitor(r); err != nil {
			return false
		}
	}
	return v.requireScope(access.Read) == nil && v.requireUnrestricted() == nil
}

// ready answers 503 where the node can answer nobody; with ?all, where anything is out of order.
func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	var answer Readiness
	if a.seesDetails(r) {
		answer = a.readiness(r.Context())
	} else {
		answer = a.lastReadiness(r.Context()).public()
	}
	status := http.StatusOK
	if !answer.Ready || !answer.Fine && r.URL.Query().Has("all") {
		status = http.StatusServiceUnavailable
	}
	a.write(w, r, status, answer)
}

// alive says that the process answers, and nothing of what it needs.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n")) // a client that left needs no answer
}
