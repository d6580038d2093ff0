package alerts

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"deadman/internal/configfile"
)

// An alert's row has what it is found by in columns, and the rest in a document: an alert is the most
// that a job writes. The document leaves out what the columns tell, and the slot where the id has it.

// storedAlert is an alert's document.
type storedAlert struct {
	Step      string            `json:"step"`
	StepIndex int               `json:"step_index"`
	Passed    []string          `json:"passed"`
	Text      string            `json:"text"`
	Labels    map[string]string `json:"labels"`
	Slot      time.Time         `json:"slot"`
	Event     json.RawMessage   `json:"event"`
	State     json.RawMessage   `json:"state"`
	Closes    []ID              `json:"closes"`
	Source    string            `json:"source"`
	Count     int               `json:"count"`
}

// Size is about how many bytes the alert's document has.
func (a *Alert) Size() int { return 128 + len(a.Text) + len(a.Event) + len(a.State) }

// envelope is about how many bytes a message of the stream has beside what Size counts: its subject, its headers, its fields' names and
// what the server keeps of it.
const envelope = 900

// StreamSize is about how many bytes the alert takes in the stream.
func (a *Alert) StreamSize() int64 {
	n := envelope + a.Size() + 2*len(a.Rule) + 2*len(a.Key) + len(a.Entity) + 40*len(a.Closes)
	for name, value := range a.Labels {
		n += len(name) + len(value) + 6
	}
	return int64(n)
}

// Document is the alert's document. Its bodies are JSON already, and go in as they are: json.Marshal
// would read them once more, and make every < of theirs six bytes. It is written into room as far as that
// goes; nil is none.
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
	if len(a.Passed) > 0 {
		value("passed", a.Passed)
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
	o.Body("event", a.Event)
	o.Body("state", a.State)
	return o.End(), err
}

// Read takes what a document says into the alert, whose id is known.
func (a *Alert) Read(document []byte) error {
	var k storedAlert
	if err := json.Unmarshal(document, &k); err != nil {
		return err
	}
	a.Step, a.StepIndex, a.Passed, a.Text, a.Labels = k.Step, k.StepIndex, k.Passed, k.Text, k.Labels
	a.Slot, a.Event, a.State, a.Closes, a.Source, a.Count = k.Slot, k.Event, k.State, k.Closes, k.Source, k.Count
	if a.Slot.IsZero() {
		a.Slot = TimeOf(a.ID)
	}
	return nil
}

// ReadHead takes what the beginning of a document says into the alert, and leaves its event and its state out. It reports
// whether the beginning has all the rest; else the alert is as it was.
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
		case "step", "step_index", "passed", "text", "labels", "slot", "closes", "source", "count":
		default:
			return false // an alert from before, whose event is not behind the rest
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return false
		}
		end = d.InputOffset()
	}
}

// The numbers by which rows know statuses and severities, from 1; 0 is one that does not exist.
var (
	statuses   = []Status{Firing, Resolved, Undetermined, GaveUp, Expired}
	severities = []Severity{Info, Warning, Error, Critical}
)

// Number is the status in a row.
func (s Status) Number() int16 { return number(statuses, s) }

// Number is the severity in a row; the graver, the greater.
func (s Severity) Number() int16 { return number(severities, s) }

// StatusOf is the status that a row has by its number.
func StatusOf(number int16) Status { return numbered(statuses, number) }

// SeverityOf is the severity that a row has by its number.
func SeverityOf(number int16) Severity { return numbered(severities, number) }

func number[T comparable](all []T, one T) int16 { return int16(slices.Index(all, one) + 1) } //nolint:gosec // there are few

func numbered[T ~string](all []T, number int16) T {
	if number < 1 || int(number) > len(all) {
		return ""
	}
	return all[number-1]
}
