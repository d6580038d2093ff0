package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
)

// logInterval is the shortest time between log messages about a broken condition, for errors that differ each time.
const logInterval = time.Minute

// Condition is a requirement for a node to work in full.
type Condition struct {
	Name   string `json:"name"` // its kind, such as database, nats, streams, sweep, serving; it is public
	OK     bool   `json:"ok"`
	Vital  bool   `json:"required"`         // without it the node can answer no requests
	Detail string `json:"detail,omitempty"` // for callers that may read all rules; a sentence without secrets
	// Runbook is the address of the section about the condition in the documentation of the node. It is empty while the
	// condition is OK.
	Runbook string `json:"runbook,omitempty"`
	Err     error  `json:"-"` // the cause if it is not OK, for the log only
}

// Health checks all conditions. A draining node has one that is not OK.
type Health func(ctx context.Context) []Condition

// Readiness is the answer of /readyz. A ready node may still have broken conditions: it continues with the rest of its
// work, and load balancers should keep sending requests.
type Readiness struct {
	Ready      bool        `json:"ready"`   // all vital conditions are OK
	Healthy    bool        `json:"healthy"` // all conditions are OK
	Conditions []Condition `json:"conditions"`
}

// Sentence summarizes the conditions in one sentence. lost is the sentence about open alerts about lost data; empty: none
// is open.
func (r Readiness) Sentence(lost string) string {
	var names []string
	for _, c := range r.Conditions {
		if !c.OK {
			names = append(names, strings.ReplaceAll(c.Name, "_", " "))
		}
	}
	switch broken := strings.Join(names, ", "); {
	case !r.Ready:
		return "This node cannot serve requests: " + broken
	case !r.Healthy:
		return "Conditions failed: " + broken
	case lost != "":
		return lost
	}
	return "All systems of deadman operational"
}

// LossSentence returns the sentence in place of that of a healthy node, while alerts about lost data are open. restores
// has the open alerts about a database that went back, newest first.
func LossSentence(restores []Alert) string {
	for _, a := range restores {
		if state := a.Labels[alerts.StateLabel]; state != "" {
			return "All conditions hold, but the database went back to its state of " + state + ": later data may be missing"
		}
	}
	return "All conditions hold, but data was lost: see the open alerts"
}

// RestoreAlerts selects the alerts that LossSentence reads, for GET /alerts.
func RestoreAlerts() url.Values {
	return url.Values{"open": {"true"}, "rule": {alerts.SystemRule}, "key": {alerts.RestoreTopic}}
}

// readinessPages serves the conditions of the node.
type readinessPages struct {
	*responder
	health Health
	auth   *authenticator
	now    func() time.Time
	logged conditionLog
	last   verdict
}

func (a *readinessPages) readiness(ctx context.Context) Readiness {
	out := Readiness{Ready: true, Healthy: true, Conditions: a.health(ctx)}
	for i, c := range out.Conditions {
		out.Ready = out.Ready && (c.OK || !c.Vital)
		out.Healthy = out.Healthy && c.OK
		if !c.OK {
			out.Conditions[i].Runbook = runbookOf(c.Name)
		}
	}
	if ctx.Err() == nil { // otherwise the client disconnected, possibly the only cause
		a.logChanges(ctx, out.Conditions)
	}
	return out
}

// conditionLog is the last log message about each broken condition, by name.
type conditionLog struct {
	mu    sync.Mutex
	known map[string]loggedCondition
}

type loggedCondition struct {
	text string
	at   time.Time
}

// logChanges logs the cause of a broken condition once, not with each probe, and its recovery.
func (a *readinessPages) logChanges(ctx context.Context, conditions []Condition) {
	a.logged.mu.Lock()
	defer a.logged.mu.Unlock()
	now := a.now()
	for _, c := range conditions {
		last, known := a.logged.known[c.Name]
		switch {
		case c.OK && known:
			delete(a.logged.known, c.Name)
			a.log.InfoContext(ctx, "in order again", "condition", c.Name)
		case c.OK || c.Err == nil:
		case !known || (last.text != c.Err.Error() && now.Sub(last.at) >= logInterval):
			a.logged.known[c.Name] = loggedCondition{c.Err.Error(), now}
			a.log.ErrorContext(ctx, "not in order", "condition", c.Name, "err", c.Err)
		}
	}
}

// verdictAge is the largest age of a cached readiness.
const verdictAge = time.Second

// verdict caches the last readiness.
type verdict struct {
	mu    sync.Mutex
	found time.Time // zero if none
	last  Readiness
}

// lastReadiness returns a readiness of at most verdictAge ago. Of concurrent requests, one runs the checks; the others
// get the result even if that one's client disconnects.
func (a *readinessPages) lastReadiness(ctx context.Context) Readiness {
	a.last.mu.Lock()
	defer a.last.mu.Unlock()
	if age := a.now().Sub(a.last.found); a.last.found.IsZero() || age < 0 || age >= verdictAge {
		a.last.last = a.readiness(context.WithoutCancel(ctx))
		a.last.found = a.now()
	}
	return a.last.last
}

// public returns the part for callers without a token: the verdict, and the kinds of broken conditions. Details name
// sources, channels, streams and rules.
func (r Readiness) public() Readiness {
	broken := []Condition{}
	for _, c := range r.Conditions {
		if !c.OK {
			broken = append(broken, Condition{Name: c.Name, Vital: c.Vital, Runbook: c.Runbook})
		}
	}
	r.Conditions = broken
	return r
}

// seesDetails reports whether the caller may see the details of conditions, since they concern all rules.
func (a *readinessPages) seesDetails(r *http.Request) bool {
	v := principalOf(r.Context()) // set for a request that a page makes
	if v.anonymous() {
		var err error
		if v, err = a.auth.visitor(r); err != nil {
			return false
		}
	}
	return v.requireScope(access.Read) == nil && v.requireUnrestricted() == nil
}

// ready answers 503 if a vital condition is broken; with ?all, if any condition is.
func (a *readinessPages) ready(w http.ResponseWriter, r *http.Request) {
	var answer Readiness
	if a.seesDetails(r) {
		answer = a.readiness(r.Context())
	} else {
		answer = a.lastReadiness(r.Context()).public()
	}
	status := http.StatusOK
	if !answer.Ready || !answer.Healthy && r.URL.Query().Has("all") {
		status = http.StatusServiceUnavailable
	}
	a.write(w, r, status, answer)
}

// alive answers that the process runs, without checking its dependencies.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n")) // a client that disconnected needs no answer
}
