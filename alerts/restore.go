package alerts

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mark records the last comparison of the alert stream and the database: at that time the database knew all alerts of
// the stream up to a sequence. A mark that goes back reveals that the database went back.
type Mark struct {
	Round   uint64 // grows with every write; 0: no mark yet
	Seq     uint64 // of the alert stream
	At      time.Time
	Restore *Restore // nil: the database did not go back, or the restore is complete
}

// Restore describes a database that went back to an earlier state, through a failover that lost commits or a restore.
type Restore struct {
	From, To uint64    // the alerts of the stream after From and up to To are compared
	Since    time.Time // the database has all earlier records
	FoundAt  time.Time
	ReadAt   time.Time // streams must be read past it before open alerts are closed
	Lost     int       // alerts of the stream that the database did not have
	Report   string    // further losses
}

// Including returns the restore extended to an earlier one that is not complete; nil: there is none.
func (r Restore) Including(before *Restore) Restore {
	if before == nil {
		return r
	}
	r.From = min(r.From, before.From)
	if before.Since.Before(r.Since) {
		r.Since = before.Since
	}
	return r
}

// RestoreTopic is the key of the alerts about a database that went back: one with the step restoreStep, and those with
// newerRulesStep about alerts that stay open.
const (
	RestoreTopic   = "database"
	restoreStep    = "restored"
	newerRulesStep = "newer-rules"
)

// RestoreCommand is the command that restores a backup. It begins the report of a restore that it records.
const RestoreCommand = "deadman restore"

// StateLabel is the label of FiringAlert with the time of the state that the database went back to.
const StateLabel = "state_of"

// FiringAlert returns the alert that the database went back. It reports lost data, so it is open until an actor closes it.
func (r Restore) FiringAlert() SystemAlert {
	unknown := ""
	if r.Lost > 0 {
		unknown = counted(r.Lost, "alert of the stream was", "alerts of the stream were") + " decided after that state and not known to the database. "
	}
	verb, state := "detected", r.Since.UTC().Format(time.RFC3339)
	if strings.Contains(r.Report, RestoreCommand) {
		verb = "restored" // FoundAt is the time of the command
	}
	return SystemAlert{
		Topic: RestoreTopic, Step: restoreStep, Status: Firing, Severity: Error, Since: r.FoundAt, Count: r.Lost, UntilClosed: true,
		Labels: map[string]string{StateLabel: state},
		Text:   fmt.Sprintf("the database went back to its state of %s, %s at %s. %s%s", state, verb, r.FoundAt.UTC().Format(time.RFC3339), unknown, r.Report),
	}
}

// SettledText describes a restore after which the streams are read again. adopted is the number of open alerts that belong to
// pending jobs again, closed the number of alerts without a pending job, and staying the number of open alerts of rules that are newer
// than the restored state.
func (r Restore) SettledText(adopted, closed, staying int) string {
	text := fmt.Sprintf("the streams are read past the state of %s again: %s, %s",
		r.Since.UTC().Format(time.RFC3339), counted(adopted, "open alert belongs to a pending job again", "open alerts belong to pending jobs again"),
		counted(closed, "was closed, as no job is pending for it", "were closed, as no job is pending for them"))
	if staying > 0 {
		text += ", " + counted(staying, "stays open, as its rule is newer than that state", "stay open, as their rules are newer than that state")
	}
	return text
}

// StayingMost is the largest number of alerts that one alert says to stay open: the alert that closes them has their ids.
const StayingMost = 300

// StayingAlert returns the report of alerts that stay open, because the rules are newer than the restored state. The close of the
// report by an actor closes all. part counts such alerts of one restore, each with at most StayingMost.
func (r Restore) StayingAlert(part int, staying []Alert) SystemAlert {
	var ids []ID
	var rules []string
	for _, a := range staying {
		ids = append(ids, a.ID)
		if !slices.Contains(rules, a.Rule) {
			rules = append(rules, a.Rule)
		}
	}
	slices.Sort(rules)
	return SystemAlert{
		Topic: RestoreTopic, Step: newerRulesStep, Status: Firing, Severity: Error, Since: r.FoundAt.Add(time.Duration(part) * time.Millisecond),
		Count: len(staying), UntilClosed: true, OpenAlerts: ids,
		Text: fmt.Sprintf("%s that the database does not have since it went back to its state of %s, of %s that are newer than that state: %s. "+
			"Their events are not read again by themselves: apply each rule with deadman rule apply -f FILE --backfill AGE --raise-past, then close this alert, which closes them",
			counted(len(staying), "alert is open", "alerts are open"), r.Since.UTC().Format(time.RFC3339), counted(len(rules), "rule", "rules"), named(rules)),
	}
}

// ReadAgain is a stream that is read again after the database went back.
type ReadAgain struct {
	Stream string // as texts name it
	After  uint64 // the database has applied the stream up to this sequence
	Last   uint64 // last sequence of the stream; 0: unknown, or the stream is empty
}

func (s ReadAgain) text() string {
	text := fmt.Sprintf("%s after sequence %d", s.Stream, s.After)
	switch {
	case s.Last == 0:
		return text
	case s.Last == s.After:
		return text + ", its last one"
	case s.Last < s.After:
		return text + fmt.Sprintf(", and it ends at %d: it is older than the database, so events that it gets up to that sequence are not applied", s.Last)
	}
	return text + fmt.Sprintf(" up to %d (%s)", s.Last, counted64(s.Last-s.After, "message"))
}

// readAgainMost is the largest number of streams that a text names.
const readAgainMost = 20

// ReadAgainText returns a sentence with the streams that are read again; empty: there are none.
func ReadAgainText(all []ReadAgain) string {
	if len(all) == 0 {
		return ""
	}
	var texts []string
	for _, s := range all[:min(len(all), readAgainMost)] {
		texts = append(texts, s.text())
	}
	if more := len(all) - readAgainMost; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return "The streams are read again from where the database stands: " + strings.Join(texts, ", ") + ". "
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func counted64(n uint64, one string) string {
	if n != 1 {
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// SupersededAlert returns the alert that closes FiringAlert because the database went back once more; next is the new restore.
func (r Restore) SupersededAlert(next Restore) SystemAlert {
	again := r.FiringAlert()
	again.Status = Resolved
	again.Text = fmt.Sprintf("the database went back again, detected at %s and reported by another alert", next.FoundAt.UTC().Format(time.RFC3339))
	return again
}

// Closed returns the alert that closes an open alert of the stream that the database does not know. Its id follows
// from the closed alert's id, so every node derives the same alert.
func (r Restore) Closed(a Alert, at time.Time) Alert {
	c := Alert{
		Rule: a.Rule, RuleVersion: a.RuleVersion, Entity: a.Entity, Key: a.Key, DecidedAt: at.UTC(), Shard: a.Shard, RuleID: a.RuleID,
		Detail: Detail{
			Draft: Draft{Status: Resolved, Severity: a.Severity, Step: a.Step, StepIndex: a.StepIndex, Labels: a.Labels},
			Since: a.Since, Slot: a.Slot, CheckCount: a.CheckCount, Source: a.Source, Closes: []ID{a.ID},
		},
	}
	c.Text = fmt.Sprintf("%s %s: closed, as the database was restored to its state of %s and no job is pending for it",
		a.Entity, a.Key, r.Since.UTC().Format(time.RFC3339))
	c.ID = Decision{
		JobID: int64(binary.BigEndian.Uint64(a.ID[8:])), CreatedAt: TimeOf(a.ID), Status: Resolved, //nolint:gosec // the same bits
		Place: int(binary.BigEndian.Uint16(a.ID[6:]) & 0x0fff), At: TimeOf(a.ID).Add(time.Millisecond),
	}.ID()
	return c
}

// Open holds the open alerts of a stream that is read in order.
type Open map[ID]Alert

// Close removes the alerts that the given alert closes.
func (o Open) Close(a Alert) {
	for _, id := range a.Closes {
		delete(o, id)
	}
}

// Read applies the next alert of the stream.
func (o Open) Read(a Alert) {
	o.Close(a)
	if a.Status == Firing || a.Status == Undetermined {
		o[a.ID] = a
	}
}
