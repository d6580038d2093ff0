package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"deadman/internal/configfile"
	"deadman/rules/document"
)

// ReceivedHeartbeat is a heartbeat of one entity.
type ReceivedHeartbeat struct {
	Key    string
	At     time.Time
	Kind   Signal
	Run    string // the run that it belongs to; empty: the run without a name
	Exit   *int   // the exit status of the run, 0 to 255; nil: not reported
	Body   string // further text of the sender, for people
	Paused bool   // the rule is paused: no new job is created
}

// Signal is the kind of a heartbeat.
type Signal string

// The kinds of heartbeats.
const (
	Success Signal = "success" // all is well, until the next success is overdue
	Begun   Signal = "start"   // a run has begun
	Failure Signal = "fail"    // a failure: the next success is overdue at once
	Log     Signal = "log"     // no statement about success or failure
	// Expected is the signal of a heartbeat that never came, of an entity that is expected to send heartbeats.
	Expected Signal = "expected"
)

var signals = []string{string(Success), string(Begun), string(Failure), string(Log)}

// signalOf parses a signal from a word or an exit status.
func signalOf(text string) (Signal, *int, error) {
	if status, err := strconv.Atoi(text); err == nil {
		if status < 0 || status > 255 {
			return "", nil, fmt.Errorf("%d is not an exit status, which is 0 to 255", status)
		}
		return signalOfExit(status), &status, nil
	}
	for _, word := range signals {
		if text == word {
			return Signal(text), nil, nil
		}
	}
	return "", nil, errors.New(configfile.NotOneOf("a kind of heartbeat", text, append(slices.Clone(signals), "or an exit status")))
}

func signalOfExit(status int) Signal {
	if status == 0 {
		return Success
	}
	return Failure
}

// pings takes the place of a subject for the shape of the data of a ping.
const pings = "a ping"

// pingShape is the shape of the data of a ping.
var pingShape = document.Shape{
	"kind": {Kind: document.Text}, "exit_status": {Kind: document.Number}, "run": {Kind: document.Text},
	"duration_seconds": {Kind: document.Number}, "body": {Kind: document.Text}, "source": {Kind: document.Text},
}

// pulseShape is the shape of state.heartbeat.
var pulseShape = document.Shape{
	"kind": {Kind: document.Text}, "at": {Kind: document.Time}, "failed_at": {Kind: document.Time}, "exit_status": {Kind: document.Number}, "run": {Kind: document.Text},
	"duration_seconds": {Kind: document.Number}, "reason": {Kind: document.Text}, "overdue_at": {Kind: document.Time},
	"runs":         {Kind: document.List, Items: &document.Form{Kind: document.Object, Fields: document.Shape{"run": {Kind: document.Text}, "at": {Kind: document.Time}, "again_at": {Kind: document.Time}}}},
	"dropped_runs": {Kind: document.Number},
	"failed_runs":  {Kind: document.List, Items: &document.Form{Kind: document.Text}},
	"no_success":   {Kind: document.Boolean},
	"started_at":   {Kind: document.Time}, "ended_at": {Kind: document.Time}, "too_soon_at": {Kind: document.Time},
}

// ping is the event of a heartbeat that came as a ping.
type ping struct {
	Kind    Signal   `json:"kind"`
	Exit    *int     `json:"exit_status,omitempty"`
	Run     string   `json:"run,omitempty"`
	Seconds *float64 `json:"duration_seconds,omitempty"`
	Body    string   `json:"body,omitempty"`
	Source  string   `json:"source"`
}

func checkRun(name string) error {
	if name == "" {
		return nil
	}
	return wrapErr("run", checkKey(name))
}
