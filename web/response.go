package web

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// headers sets the headers of every answer.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		commonHeaders(w.Header())
		next.ServeHTTP(w, r)
	})
}

func commonHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// wholeJSON encodes an answer before sending any of it. An encoding error is a panic, and recoverPanics turns it into a
// problem.
var wholeJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		var out bytes.Buffer
		if err := huma.DefaultJSONFormat.Marshal(&out, v); err != nil {
			panic(fmt.Errorf("the answer cannot be encoded: %w", err))
		}
		_, err := out.WriteTo(w)
		return err
	},
	Unmarshal: huma.DefaultJSONFormat.Unmarshal,
}

// deferredWriter sends the status with the first byte of the body, so that an answer can be replaced before.
type deferredWriter struct {
	http.ResponseWriter
	status int  // to be sent; 0 if unset
	begun  bool // it was sent
}

// Unwrap implements the interface of http.ResponseController.
func (l *deferredWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l *deferredWriter) WriteHeader(status int) {
	switch {
	case status < http.StatusOK: // informational, before the answer
		l.ResponseWriter.WriteHeader(status)
	case l.status == 0:
		l.status = status
	}
}

// Write implements http.ResponseWriter.
func (l *deferredWriter) Write(b []byte) (int, error) {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	l.startBody()
	return l.ResponseWriter.Write(b)
}

// FlushError implements the interface of http.ResponseController.
func (l *deferredWriter) FlushError() error {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	l.startBody()
	return http.NewResponseController(l.ResponseWriter).Flush()
}

// startBody sends the status, if one is set and unsent.
func (l *deferredWriter) startBody() {
	if l.status != 0 && !l.begun {
		l.begun = true
		l.ResponseWriter.WriteHeader(l.status)
	}
}

// TrailEntry is an entry of a job's trail, as the API returns it.
type TrailEntry struct {
	Kind            string         `json:"kind" enum:"check,update,pause,resume,snooze,move,reschedule,acknowledge,unacknowledge,fail,skip" doc:"Kind of the entry: a check, or a change of the job."`
	At              time.Time      `json:"at" doc:"Slot of the check, or time of the change."`
	LatenessSeconds float64        `json:"lateness_seconds,omitempty" doc:"Checks only: time between slot and decision, in seconds."`
	Values          string         `json:"values,omitempty" doc:"Values that the condition evaluated, shortened." example:"state.status = \"UNSHIPPED\""`
	Step            string         `json:"step,omitempty" doc:"Step that was taken, or suppressed if suppressed is true, or steps that were skipped because they were due before the rule was saved." example:"primary"`
	Suppressed      bool           `json:"suppressed,omitempty" doc:"Whether a due step was suppressed by an acknowledgement."`
	Reason          string         `json:"reason,omitempty" doc:"Reason why the check failed or was postponed, or why a run failed."`
	Outcome         checks.Outcome `json:"outcome,omitempty" doc:"Outcome of the check that ended the job, if no alert reports it." example:"cleared"`
	Next            time.Time      `json:"next,omitzero" doc:"Time of the next check, as planned then."`
	NoNextCheck     bool           `json:"no_next_check,omitempty" doc:"Whether no further check was planned until a signal arrives: all steps of a missing heartbeat were taken. Next is absent then."`
	By              string         `json:"by,omitempty" doc:"Subject of the event, or actor, that caused the entry." example:"orders.changed"`
}

// trailOf converts a trail for the API; nil if it is empty.
func trailOf(t futurejobs.Trail) []TrailEntry {
	var all []TrailEntry
	for _, e := range t.Entries() {
		all = append(all, TrailEntry{
			Kind: string(e.Kind), At: e.At, LatenessSeconds: e.Lateness.Seconds(), Values: e.Values, Step: e.Step, Suppressed: e.Held,
			Reason: e.Reason, Outcome: e.Outcome, Next: e.Next, By: e.By,
		})
	}
	return all
}
