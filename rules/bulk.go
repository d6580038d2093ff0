package rules

import (
	"encoding/json"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// NewJob is a wait that a person asks for.
type NewJob struct {
	Rule  string
	Key   string
	Event json.RawMessage // what the rule sees as the trigger's body; nil: none
	Since time.Time       // when the wait began; zero: now
}

// BulkStart is what becomes of many waits that a person asks for at once.
type BulkStart struct {
	Effects []futurejobs.Effect
	Places  []int   // of the waits that the effects begin, by effect
	Refused []error // by wait: futurejobs.ErrNotFound, or Problems; nil: there is an effect
}

// Unknown reports whether a wait was refused because nobody knows its rule.
func (b BulkStart) Unknown() bool {
	for _, err := range b.Refused {
		if errors.Is(err, futurejobs.ErrNotFound) {
			return true
		}
	}
	return false
}

// StartAll is Begin for many waits, by the newest versions of their rules. What is refused of them
// keeps none of the others out.
func (b *Catalog) StartAll(waits []NewJob, now time.Time) BulkStart {
	type found struct {
		rule *Rule
		err  error
	}
	known := make(map[string]found)
	all := BulkStart{
		Effects: make([]futurejobs.Effect, 0, len(waits)), Places: make([]int, 0, len(waits)), Refused: make([]error, len(waits)),
	}
	for i := range waits {
		w := &waits[i]
		of, met := known[w.Rule]
		if !met {
			of.rule, of.err = b.Newest(w.Rule)
			known[w.Rule] = of
		}
		if all.Refused[i] = of.err; of.err != nil {
			continue
		}
		effect, err := of.rule.Start(w.Key, w.Since, now, w.Event, b.shards)
		if all.Refused[i] = err; err != nil {
			continue
		}
		all.Effects, all.Places = append(all.Effects, effect), append(all.Places, i)
	}
	return all
}
