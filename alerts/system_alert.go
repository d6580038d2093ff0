package alerts

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// The rule and the entity of an alert about a node, not about a job.
const (
	SystemRule   = "deadman" // no rule can have this name
	SystemRuleID = 0
	SystemEntity = "node"
)

// GapStep is the step of alerts about monitoring gaps.
const GapStep = "gap"

// SystemAlert is an alert of a node about itself or a dependency. Its id follows from Topic, Step, Status and Since,
// so repeated reports by any node are one alert.
type SystemAlert struct {
	Topic    string // its subject, such as "channel/pager" or "stream/ORDERS": the alert's key
	Step     string // the kind of alert, such as "lost"; may be empty
	Status   Status
	Severity Severity
	Since    time.Time // when the condition began; for a Resolved one, when the closed condition began
	Text     string
	Labels   map[string]string
	Source   string // the source that can't be queried; may be empty
	Count    int    // of jobs, or of the objects that Text counts; 0: nothing is counted

	UntilClosed   bool // of a Firing one: it reports lost data, and is open until an actor closes it
	UntilResolved bool // of a Firing one that no other record has as open: it is open until the Resolved one, or the end of its rule
	OpenAlerts    []ID // alerts that the close of this one by an actor closes, too
}

// Alert returns r as an alert decided at the given time. A Resolved one closes the firing one of the same Topic, Step
// and Since. The store sets its shard.
func (r SystemAlert) Alert(at time.Time) Alert {
	a := Alert{
		ID: r.id(), Rule: SystemRule, RuleID: SystemRuleID, Entity: SystemEntity, Key: r.Topic, DecidedAt: at.UTC(),
		Detail: Detail{
			Draft: Draft{Status: r.Status, Severity: r.Severity, Step: r.Step, Text: r.Text, Labels: r.Labels},
			Since: r.Since.UTC(), Slot: r.Since.UTC(), Source: r.Source, Count: r.Count,
		},
		UntilClosed: r.UntilClosed && r.Status == Firing,
	}
	if len(r.OpenAlerts) > 0 {
		a.State, _ = json.Marshal(systemState{r.OpenAlerts}) // ids are text
	}
	if r.Status == Resolved {
		r.Status = Firing
		a.Closes = []ID{r.id()}
	}
	return a
}

// systemState is the state of a system alert.
type systemState struct {
	OpenAlerts []ID `json:"open_alerts"`
}

// ClosedWith returns the ids of a system alert and of the alerts in its OpenAlerts: the close by an actor closes all.
func ClosedWith(a Alert) []ID {
	var state systemState
	_ = json.Unmarshal(a.State, &state) // without a state there are no others
	return append([]ID{a.ID}, state.OpenAlerts...)
}

// ResolvingID returns the ID of the Resolved alert that closes the system alert of a topic and a step since a time.
func ResolvingID(topic, step string, since time.Time) ID {
	return SystemAlert{Topic: topic, Step: step, Status: Resolved, Since: since}.id()
}

func (r SystemAlert) id() ID {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.Topic + "\x00" + r.Step)) // it never fails
	at := r.Since
	if r.Status == Resolved {
		at = at.Add(time.Millisecond) // after the alert that it closes
	}
	return Decision{JobID: int64(hash.Sum64()), CreatedAt: r.Since, Status: r.Status, At: at}.ID()
}

// mostNamed is the largest number of rules that a system alert names.
const mostNamed = 10

// lossTime is the layout of times in texts about lost events. Each has its zone.
const lossTime = "2006-01-02 15:04:05.999999999 UTC"

// StreamLoss returns the alert that events of a stream were not read: some or all of those received after since and
// until to. why describes the cause.
func StreamLoss(stream string, since, to time.Time, why string) SystemAlert {
	since, to = since.UTC(), to.UTC()
	return SystemAlert{
		Topic: "stream/" + stream, Step: "lost", Status: Firing, Severity: Error, Since: since, Source: stream,
		Text: fmt.Sprintf("stream %s %s: events stored after %s and until %s may be missing; "+
			"check what happened in that time, create, resolve or cancel jobs by hand (deadman job), then close this alert",
			stream, why, since.Format(lossTime), to.Format(lossTime)),
		Labels: map[string]string{"stream": stream}, UntilClosed: true,
	}
}

// Affecting returns the alert with the names of the affected rules added to its text.
func (r SystemAlert) Affecting(rules []string) SystemAlert {
	if len(rules) > 0 {
		r.Text += "; rules that read it: " + named(rules)
	}
	return r
}

// named returns the first of the rules, and the number of others.
func named(rules []string) string {
	text := strings.Join(rules[:min(len(rules), mostNamed)], ", ")
	if more := len(rules) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
