package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

func itoa[T ~int16 | ~int32 | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// inOrder returns decisions in the order of (shard, id), the order of row locks.
func inOrder(decisions []*futurejobs.Decision) []*futurejobs.Decision {
	sorted := slices.Clone(decisions)
	slices.SortFunc(sorted, func(a, b *futurejobs.Decision) int {
		return cmp.Or(cmp.Compare(a.Job.Shard, b.Job.Shard), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	return sorted
}

// lost returns the shards in held that are not in still, the shards still leased at their epoch.
func lost(held []futurejobs.HeldShard, still []int16) []int16 {
	var gone []int16
	for _, h := range held {
		if !slices.Contains(still, h.Shard) {
			gone = append(gone, h.Shard)
		}
	}
	return gone
}

// detail returns an alert's document, written into room as far as its capacity allows.
func detail(a *alerts.Alert, room []byte) ([]byte, error) {
	b, err := a.Document(room)
	if err != nil {
		return nil, fmt.Errorf("alert %s: %w", a.ID, err)
	}
	return sanitizeJSON(b), nil
}

// alertsOf returns the alerts of decisions.
func alertsOf(decisions []futurejobs.Decision) (raised []alerts.Alert) {
	for _, d := range decisions {
		raised = append(raised, d.Alerts...)
	}
	return raised
}

// applied returns the result of a net effect.
func applied(b futurejobs.EffectBatch, net futurejobs.FoldResult) futurejobs.ApplyResult {
	again, fresh := sortLetters(b, net.DeadLetters)
	done := futurejobs.ApplyResult{
		EffectCounts: net.EffectCounts, Alerts: alertsOf(net.End), AlreadyPending: net.AlreadyPending, Over: net.Over, RefusedAgain: again, RefusedBy: refusedBy(net.DeadLetters),
	}
	for _, l := range fresh {
		done.Summarized += l.Summarized
	}
	return done
}

// refusedBy counts refused events by rule; nil: there are none.
func refusedBy(letters []futurejobs.DeadLetter) map[string]int {
	if len(letters) == 0 {
		return nil
	}
	by := make(map[string]int)
	for i := range letters {
		by[letters[i].Rule] += int(max(letters[i].Summarized, 1))
	}
	return by
}

// refs returns the jobs that effects name, each once, in lock order.
func refs(effects []futurejobs.Effect) []futurejobs.Ref {
	all := make([]futurejobs.Ref, len(effects))
	for i, e := range effects {
		all[i] = e.Ref
	}
	return inLockOrder(all)
}

// inLockOrder sorts refs in the order of row locks and removes duplicates.
func inLockOrder(refs []futurejobs.Ref) []futurejobs.Ref {
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs)
}

func compareRefs(a, b futurejobs.Ref) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Key, b.Key))
}

// byRef indexes jobs by their refs.
func byRef(jobs []futurejobs.Job) map[futurejobs.Ref]futurejobs.Job {
	m := make(map[futurejobs.Ref]futurejobs.Job, len(jobs))
	for _, j := range jobs {
		m[j.Ref] = j
	}
	return m
}

// field is one name of an event's header, as it is stored.
type field struct {
	Name   escapedText   `json:"name"`
	Values []escapedText `json:"values"`
}

// header returns an event's header as it is stored.
func header(h map[string][]string) (string, error) {
	fields := make([]field, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		f := field{Name: escapedText(name)}
		for _, v := range h[name] {
			f.Values = append(f.Values, escapedText(v))
		}
		fields = append(fields, f)
	}
	b, err := json.Marshal(fields)
	return string(b), err
}

// readHeader decodes a stored header; nil if the event had none.
func readHeader(text string) (map[string][]string, error) {
	var fields []field
	if err := json.Unmarshal([]byte(text), &fields); err != nil || len(fields) == 0 {
		return nil, err
	}
	h := make(map[string][]string, len(fields))
	for _, f := range fields {
		values := make([]string, len(f.Values))
		for i, v := range f.Values {
			values[i] = string(v)
		}
		h[string(f.Name)] = values
	}
	return h, nil
}
