package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// StreamSource returns the source name of a stream, for outages.
func StreamSource(stream string) string { return streamPrefix + stream }

const streamPrefix = "stream/"

// Outage is a source or a stream that cannot be reached for a rule. While it is open, its alert covers all jobs that
// are undetermined because of it.
type Outage struct {
	Source   string
	RuleID   int32
	Version  int32 // of the rule at the opening
	OpenedAt time.Time
	SeenAt   time.Time // when it last affected a job
	Jobs     int       // affected jobs so far
	More     bool      // there may be more jobs; only if Jobs counts due jobs
	Reason   string    // the first error
}

// OutageHit reports jobs that are undetermined because of an outage.
type OutageHit struct {
	Held     []HeldShard // at least one has to be held
	RuleSet  int64       // the revision that the checks are based on
	Outage   Outage      // without times
	Repeated int         // jobs that were reported before, and keep the outage open or reopen it
	// Alert returns the opening alert. Jobs is the number of due jobs of the rule then.
	Alert func(Outage) alerts.Alert
}

// OutageStore stores outages. At most one is open for a source and a rule. Implementations are safe for concurrent
// use.
type OutageStore interface {
	// RecordOutage opens an outage with its alert if none is open, and otherwise adds the jobs to the open one. It
	// returns the alert if it was written; ErrRulesChanged if the rule set changed, and ErrNotHeld if no shard is
	// held any more.
	RecordOutage(ctx context.Context, m OutageHit) (raised []alerts.Alert, err error)
	// Outages returns the open outages.
	Outages(ctx context.Context) ([]Outage, error)
	// CloseOutage closes an outage with an alert; ended is false if it was not open any more.
	CloseOutage(ctx context.Context, o Outage, alertOf func(Outage) alerts.Alert) (raised []alerts.Alert, ended bool, err error)
}

// ErrNotHeld means that the shards are held by another node. Nothing was written.
var ErrNotHeld = errors.New("the shards are held by another node")

// OpeningAlert returns the opening alert of an outage, as far as the outage determines it: its id and its subject.
func (o Outage) OpeningAlert(rule, entity string) alerts.Alert {
	return o.alert(rule, entity, alerts.Undetermined, o.OpenedAt)
}

// outageTopic is the prefix of the key of an outage's alert, before the source.
const outageTopic = "outage/"

// IsOutage reports whether an alert is about an outage instead of a job. It cannot be acknowledged: it closes by
// itself.
func IsOutage(a alerts.Alert) bool { return a.Source != "" && a.Key == outageTopic+a.Source }

// IsLoss reports whether an open alert is about lost data instead of a job. It cannot be acknowledged: an actor closes it.
func IsLoss(a alerts.Alert) bool { return a.Rule == alerts.SystemRule }

// alert returns an alert about an outage of a rule. Its id is derived from the opening time.
func (o Outage) alert(rule, entity string, status alerts.Status, at time.Time) alerts.Alert {
	a := alerts.SystemAlert{
		Topic: outageTopic + o.Source, Step: rule, Status: status, Since: o.OpenedAt, Source: o.Source, Count: o.Jobs,
	}.Alert(at)
	a.Rule, a.RuleID, a.RuleVersion, a.Entity, a.Step = rule, o.RuleID, int(o.Version), entity, ""
	return a
}

func (o Outage) text(status alerts.Status, entity string) string {
	source := o.Source
	if stream, is := strings.CutPrefix(source, streamPrefix); is {
		source = "the stream " + LineText(stream)
	}
	if status == alerts.Resolved && o.Jobs == 0 { // it was reopened for jobs that were reported before
		return source + " is available again"
	}
	if status == alerts.Resolved {
		return fmt.Sprintf("%s is available again; %s of %s could not be checked meanwhile", source, counted(o.Jobs, "job"), entity)
	}
	due := counted(o.Jobs, "job")
	if o.More {
		due = "at least " + due
	}
	return fmt.Sprintf("checks of %s are undetermined: %s; %s due", entity, o.Reason, due)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func isOutage(err error) bool {
	var outage *checks.Outage
	return errors.As(err, &outage)
}

// isHandler reports whether a source is an asynchronous handler.
func isHandler(source string) bool { return strings.HasPrefix(source, checks.HandlerSource("")) }

// RuleAlert returns the complete alert about an outage of a rule.
func (o Outage) RuleAlert(r *Rule, status alerts.Status, now time.Time) alerts.Alert {
	a := o.alert(r.Name, r.Entity, status, now)
	a.RuleID, a.RuleVersion, a.Severity = r.ID, int(r.Version), r.MaxSeverity
	a.Text = o.text(status, r.Entity)
	if status == alerts.Resolved {
		a.Closes = []alerts.ID{o.RuleAlert(r, alerts.Undetermined, now).ID}
	}
	if r.Labels != nil {
		a.Labels = r.Labels(Job{Ref: Ref{RuleID: r.ID, Key: a.Key}, Since: o.OpenedAt})
	}
	return a
}
