package alerts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// An alert's row keeps searchable fields in columns and the rest in a document, because alerts are the largest
// records that a job writes. The document omits the values of the columns, and the slot if it follows from the id.

// storedAlert is the document of an alert.
type storedAlert struct {
	Step         string            `json:"step"`
	StepIndex    int               `json:"step_index"`
	SkippedSteps []string          `json:"skipped_steps"`
	Text         string            `json:"text"`
	Labels       map[string]string `json:"labels"`
	Slot         time.Time         `json:"slot"`
	Event        json.RawMessage   `json:"event"`
	State        json.RawMessage   `json:"state"`
	Closes       []ID              `json:"closes"`
	Source       string            `json:"source"`
	Count        int               `json:"count"`
	OverQuota    bool              `json:"over_quota"`
	Trace        string            `json:"trace"`
}

// Size estimates the size of the alert's document in bytes.
func (a *Alert) Size() int { return 128 + len(a.Text) + len(a.Event) + len(a.State) }

// envelope estimates the bytes of a stream message beyond Size: the subject, the headers, the field names and the
// server's overhead.
const envelope = 900

// StreamSize estimates the bytes that the alert occupies in the stream.
func (a *Alert) StreamSize() int64 {
	n := envelope + a.Size() + 2*len(a.Rule) + 2*len(a.Key) + len(a.Entity) + 40*len(a.Closes)
	for name, value := range a.Labels {
		n += len(name) + len(value) + 6
	}
	return int64(n)
}

// Document encodes the alert's document into room, growing it if necessary; room may be nil. The bodies are valid
// JSON and are copied unchanged: json.Marshal would parse them again and expand every < to six bytes.
func (a *Alert) Document(room []byte) ([]byte, error) {
	o := configfile.ObjectEncoder(slices.Grow(room[:0], a.Size()))
	var err error
	value := func(name string, v any) {
		if err == nil {
			err = o.Value(name, v)
		}
	}
	o.Text("step", a.Step)
	o.Number("step_index", int64(a.StepIndex))
	if len(a.SkippedSteps) > 0 {
		value("skipped_steps", a.SkippedSteps)
	}
	o.Text("text", a.Text)
	o.Texts("labels", a.Labels)
	if !a.Slot.Equal(TimeOf(a.ID)) {
		value("slot", a.Slot)
	}
	if len(a.Closes) > 0 {
		value("closes", a.Closes)
	}
	o.Text("source", a.Source)
	o.Number("count", int64(a.Count))
	if a.BodiesOverQuota {
		value("over_quota", true)
	}
	o.Text("trace", a.Trace)
	o.Body("event", a.Event)
	o.Body("state", a.State)
	return o.End(), err
}

// Read decodes a document into the alert. The alert's ID must be set.
func (a *Alert) Read(document []byte) error {
	var k storedAlert
	if err := json.Unmarshal(document, &k); err != nil {
		return err
	}
	a.Step, a.StepIndex, a.SkippedSteps, a.Text, a.Labels = k.Step, k.StepIndex, k.SkippedSteps, k.Text, k.Labels
	a.Slot, a.Event, a.State, a.Closes, a.Source, a.Count = k.Slot, k.Event, k.State, k.Closes, k.Source, k.Count
	a.BodiesOverQuota, a.Trace = k.OverQuota, k.Trace
	if a.Slot.IsZero() {
		a.Slot = TimeOf(a.ID)
	}
	return nil
}

// ReadHead decodes the beginning of a document into the alert, without its event and state. It reports whether the
// beginning contains all other fields; if not, the alert is unchanged.
func (a *Alert) ReadHead(head []byte) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for end := int64(0); ; {
		name, err := d.Token()
		if err != nil {
			return false
		}
		switch name {
		case "event", "state":
			if end == 0 {
				return a.Read([]byte("{}")) == nil
			}
			return a.Read(append(head[:end:end], '}')) == nil
		case "step", "step_index", "skipped_steps", "text", "labels", "slot", "closes", "source", "count", "over_quota", "trace":
		default:
			return false // an old document with the event before other fields
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
		end = d.InputOffset()
	}
}

// Number returns the number of the status in a row: its place in Statuses, from 1; 0 is invalid.
func (s Status) Number() int16 { return number(Statuses, s) }

// Number returns the number of the severity in a row: its place in Severities, from 1; 0 is invalid. A higher severity has a higher number.
func (s Severity) Number() int16 { return number(Severities, s) }

// StatusOf returns the status with the number, or an empty one.
func StatusOf(number int16) Status { return numbered(Statuses, number) }

// SeverityOf returns the severity with the number, or an empty one.
func SeverityOf(number int16) Severity { return numbered(Severities, number) }

func number[T comparable](all []T, one T) int16 { return int16(slices.Index(all, one) + 1) } //nolint:gosec // there are few

func numbered[T ~string](all []T, number int16) T {
	if number < 1 || int(number) > len(all) {
		return ""
	}
	return all[number-1]
}

// HeaderText percent-encodes a text for a header of a CloudEvent in binary mode. It encodes non-ASCII and control
// characters, space, quote and percent.
func HeaderText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '"' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
