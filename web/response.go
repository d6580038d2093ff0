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

// lateWriter sends the status with the first byte of the body, so that an answer can be replaced before.
type lateWriter struct {
	http.ResponseWriter
	status int  // to be sent; 0 if unset
	begun  bool // it was sent
}

// Unwrap implements the interface of http.ResponseController.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l *lateWriter) WriteHeader(status int) {
	switch {
	case status < http.StatusOK: // informational, before the answer
		l.ResponseWriter.WriteHeader(status)
	case l.status == 0:
		l.status = status
	}
}

// Write implements http.ResponseWriter.
func (l *lateWriter) Write(b []byte) (int, error) {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	l.begin()
	return l.ResponseWriter.Write(b)
}

// FlushError implements the interface of http.ResponseController.
func (l *lateWriter) FlushError() error {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	l.begin()
	return http.NewResponseController(l.ResponseWriter).Flush()
}

// begin sends the status, if one is set and unsent.
func (l *lateWriter) begin() {
	if l.status != 0 && !l.begun {
		l.begun = true
		l.ResponseWriter.WriteHeader(l.status)
	}
}

// TrailEntry is an entry of a job's trail, as the API returns it.
type TrailEntry struct {
	Kind        string         `json:"kind" enum:"check,update,pause,resume,snooze,move,acknowledge,unacknowledge" doc:"What it was."`
	At          time.Time      `json:"at" doc:"The slot of a look; else when it happened."`
	LateSeconds float64        `json:"late_seconds,omitempty" doc:"Of a look: how long after its slot it was decided."`
	Values      string         `json:"values,omitempty" doc:"What the condition saw, clipped." example:"state.status = \"UNSHIPPED\""`
	Step        string         `json:"step,omitempty" doc:"The step that was taken." example:"primary"`
	Held        bool           `json:"held,omitempty" doc:"A step was due, and stayed unsaid because somebody had acknowledged."`
	Reason      string         `json:"reason,omitempty" doc:"Why it could not be found out, or was not looked at."`
	Outcome     checks.Outcome `json:"outcome,omitempty" doc:"Of a look that ended the job and of which no alert tells." example:"cleared"`
	Next        time.Time      `json:"next,omitzero" doc:"When it was to be looked at next."`
	By          string         `json:"by,omitempty" doc:"The subject of the event that did it, or who." example:"orders.changed"`
}

// trailOf converts a trail for the API; nil if it is empty.
func trailOf(t futurejobs.Trail) []TrailEntry {
	var all []TrailEntry
	for _, e := range t.Entries() {
		all = append(all, TrailEntry{
			Kind: string(e.Kind), At: e.At, LateSeconds: e.Late.Seconds(), Values: e.Values, Step: e.Step, Held: e.Held,
			Reason: e.Reason, Outcome: e.Outcome, Next: e.Next, By: e.By,
		})
	}
	return all
}
