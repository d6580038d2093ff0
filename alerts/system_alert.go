package alerts

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Of an alert that the node says about itself, and of no job.
const (
	SystemRule   = "deadman" // no rule can have this name
	SystemRuleID = 0
	SystemEntity = "node"
)

// SystemAlert is something that a node says about itself, or about what it depends on. Whoever
// says it, and however often, it is one alert: its id follows from Topic, Step, Status and
// Since.
type SystemAlert struct {
	Topic    string // what it is about, such as "channel/pager" or "stream/ORDERS": the alert's key
	Step     string // what kind of remark it is, such as "blind"; may be empty
	Status   Status
	Severity Severity
	Since    time.Time // when it began; of a Resolved one, when that began which it closes
	Text     string
	Labels   map[string]string
	Source   string // what could not be asked; may be empty
	Count    int    // of jobs, or whatever Text counts; 0: nothing is counted
}

// Alert is the alert that r comes to, decided at an instant. A Resolved one closes the firing
// one of the same Topic, Step and Since. The store knows its shard.
func (r SystemAlert) Alert(at time.Time) Alert {
	a := Alert{
		ID: r.id(), Rule: SystemRule, RuleID: SystemRuleID, Entity: SystemEntity, Key: r.Topic, DecidedAt: at.UTC(),
		Detail: Detail{
			Draft: Draft{Status: r.Status, Severity: r.Severity, Step: r.Step, Text: r.Text, Labels: r.Labels},
			Since: r.Since.UTC(), Slot: r.Since.UTC(), Source: r.Source, Count: r.Count,
		},
	}
	if r.Status == Resolved {
		r.Status = Firing
		a.Closes = []ID{r.id()}
	}
	return a
}

func (r SystemAlert) id() ID {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.Topic + "\x00" + r.Step)) // it never fails
	at := r.Since
	if r.Status == Resolved {
		at = at.Add(time.Millisecond) // after what it closes
	}
	return Decision{JobID: int64(hash.Sum64()), CreatedAt: r.Since, Status: r.Status, At: at}.ID()
}

// mostNamed is how many rules a remark names.
const mostNamed = 10

// StreamLoss is the remark that events of a stream were not read: some or all of those that it took in
// after since, and before to. why says what happened to the stream.
func StreamLoss(stream string, since, to time.Time, why string) SystemAlert {
	since, to = since.UTC(), to.UTC()
	return SystemAlert{
		Topic: "stream/" + stream, Step: "blind", Status: Firing, Severity: Error, Since: since, Source: stream,
		Text: fmt.Sprintf("stream %s %s: events that it took in after %s and until %s may be missing; "+
			"check what happened in that time, and create, resolve or cancel jobs by hand (deadman job)",
			stream, why, since.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)),
		Labels: map[string]string{"stream": stream},
	}
}

// Affecting is the remark with the names of the rules that it affects.
func (r SystemAlert) Affecting(rules []string) SystemAlert {
	if len(rules) == 0 {
		return r
	}
	named := strings.Join(rules[:min(len(rules), mostNamed)], ", ")
	if more := len(rules) - mostNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	r.Text += "; rules that read it: " + named
	return r
}
