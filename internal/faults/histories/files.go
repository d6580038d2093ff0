package histories

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"olympos.io/encoding/edn"
)

// record is an entry in a file. In EDN its words are keywords, and in JSON strings:
//
//	{:type :ok :f :txn :value [[:append "x" "1"] [:r "y" ["1" "2"]]] :process 0 :time 3291485317 :index 3}
//	{"type": "ok", "f": "txn", "value": [["append", "x", "1"], ["r", "y", ["1", "2"]]], "process": 0, …}
//
// elle-cli reads both (https://github.com/ligurio/elle-cli, src/elle_cli/cli.clj): EDN entry by entry or as one vector, JSON as
// one array. Jepsen writes EDN entry by entry, a line each (https://github.com/jepsen-io/jepsen, jepsen/src/jepsen/store.clj).
type record struct {
	Type    edn.Keyword `edn:"type" json:"type"`
	F       edn.Keyword `edn:"f" json:"f"`
	Value   any         `edn:"value" json:"value"`
	Process any         `edn:"process" json:"process"`
	Time    int64       `edn:"time" json:"time"` // nanoseconds
	Index   *int        `edn:"index" json:"index"`
	Error   any         `edn:"error,omitempty" json:"error,omitempty"`
}

// The words of transactions.
const (
	transaction = edn.Keyword("txn")
	appends     = edn.Keyword("append")
	reads       = edn.Keyword("r")
)

// WriteEDN writes a history as EDN, a line for each entry.
func WriteEDN(w io.Writer, h History) error { return writeEDN(w, recordsOf(h)) }

func writeEDN(w io.Writer, records []record) error {
	for _, r := range records {
		text, err := edn.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes a history as a JSON array, a line for each entry.
func WriteJSON(w io.Writer, h History) error {
	lines := make([][]byte, len(h))
	for i, r := range recordsOf(h) {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines[i] = text
	}
	_, err := fmt.Fprintf(w, "[%s]\n", bytes.Join(lines, []byte(",\n")))
	return err
}

func recordsOf(h History) []record {
	records := make([]record, len(h))
	for i, e := range h {
		value := make([]any, len(e.Value))
		for k, a := range e.Value {
			switch {
			case a.Append:
				value[k] = []any{appends, a.List, a.Element}
			case e.Type == OK:
				value[k] = []any{reads, a.List, append([]string{}, a.Elements...)}
			default:
				value[k] = []any{reads, a.List, nil}
			}
		}
		records[i] = record{edn.Keyword(e.Type), transaction, value, e.Process, e.Time.Nanoseconds(), &e.Index, nil}
		if e.Error != "" {
			records[i].Error = e.Error
		}
	}
	return records
}

// ReadEDN reads a history of transactions in EDN, entry by entry or as one vector. It leaves out the entries of the nemesis. Lists
// and elements that are no strings become strings.
func ReadEDN(r io.Reader) (History, error) {
	return read(r, func(r io.Reader) decoder { return edn.NewDecoder(r) })
}

// ReadJSON is ReadEDN for JSON: an array, or entry by entry.
func ReadJSON(r io.Reader) (History, error) {
	return read(r, func(r io.Reader) decoder {
		d := json.NewDecoder(r)
		d.UseNumber()
		return d
	})
}

type decoder interface{ Decode(into any) error }

func read(r io.Reader, newDecoder func(io.Reader) decoder) (h History, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var records []record
	d := newDecoder(bytes.NewReader(text))
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = d.Decode(&records)
	}
	for err == nil {
		var one record
		if err = d.Decode(&one); err == nil {
			records = append(records, one)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after %d entries: %w", len(records), err)
	}
	for i, r := range records {
		process, ok := number(r.Process)
		if !ok {
			continue
		}
		value, err := r.accesses()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		e := Entry{Index: i, Process: process, Type: Type(r.Type), Time: time.Duration(r.Time), Value: value}
		if r.Index != nil {
			e.Index = *r.Index
		}
		if r.Error != nil {
			e.Error = fmt.Sprint(r.Error)
		}
		h = append(h, e)
	}
	return h, nil
}

// number returns the number of a process. The nemesis has none.
func number(process any) (int, bool) {
	n, err := strconv.Atoi(fmt.Sprint(process))
	return n, err == nil
}

// accesses returns the transaction of a record.
func (r record) accesses() (all []Access, err error) {
	if r.F != transaction && r.F != "" {
		return nil, fmt.Errorf("f is %q; use txn", string(r.F))
	}
	for _, part := range sequence(r.Value) {
		a := sequence(part)
		if len(a) != 3 {
			return nil, fmt.Errorf("%v has %d parts; use [append LIST ELEMENT] or [r LIST ELEMENTS]", part, len(a))
		}
		switch word(a[0]) {
		case string(appends):
			all = append(all, Append(fmt.Sprint(a[1]), fmt.Sprint(a[2])))
		case string(reads):
			found := Read(fmt.Sprint(a[1]))
			for _, e := range sequence(a[2]) {
				found.Elements = append(found.Elements, fmt.Sprint(e))
			}
			all = append(all, found)
		default:
			return nil, fmt.Errorf("%v is neither an append nor a read (r)", part)
		}
	}
	return all, nil
}

func sequence(value any) []any {
	all, _ := value.([]any)
	return all
}

// word returns a keyword of EDN or a string of JSON.
func word(value any) string {
	if k, ok := value.(edn.Keyword); ok {
		return string(k)
	}
	s, _ := value.(string)
	return s
}

// WriteSetEDN writes a history as operations on one set, for the checkers set and set-full of Jepsen
// (https://github.com/jepsen-io/jepsen, jepsen/src/jepsen/checker.clj): an append is an add of its list and element, by a
// process of its own, and a transaction with reads is a read of all elements that they find.
func WriteSetEDN(w io.Writer, h History) error {
	all, err := h.operations()
	if err != nil {
		return err
	}
	entries := make([][]record, len(h)) // by position
	at := func(i int, kind Type, f edn.Keyword, process int, value any) {
		if i < len(h) {
			entries[i] = append(entries[i], record{Type: edn.Keyword(kind), F: f, Value: value, Process: process, Time: h[i].Time.Nanoseconds()})
		}
	}
	processes := 0
	add := func(o *operation, f edn.Keyword, invoked, value any) {
		at(o.invoked, Invoke, f, processes, invoked)
		at(o.completed, o.outcome, f, processes, value)
		processes++
	}
	for _, o := range all {
		found, isRead := []string{}, false
		for _, a := range o.value {
			if a.Append {
				add(o, "add", a.List+"/"+a.Element, a.List+"/"+a.Element)
				continue
			}
			isRead = true
			for _, e := range a.Elements {
				found = append(found, a.List+"/"+e)
			}
		}
		if isRead {
			add(o, "read", nil, found)
		}
	}
	records := slices.Concat(entries...)
	for i := range records {
		records[i].Index = &i
	}
	return writeEDN(w, records)
}
