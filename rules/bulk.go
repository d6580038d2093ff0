package rules

import (
	"encoding/json"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// NewJob is a job that a person requests.
type NewJob struct {
	Rule  string
	Key   string
	Event json.RawMessage // the trigger's body, as the rule sees it; nil: none
	Since time.Time       // when the job began; zero: now
}

// BulkStart is the result of requesting many jobs at once.
type BulkStart struct {
	Effects []futurejobs.Effect
	Places  []int   // the indexes of the jobs that the effects create, by effect
	Refused []error // by job: futurejobs.ErrNotFound, or Problems; nil: an effect creates it
}

// Unknown reports whether a job was refused because its rule does not exist.
func (b BulkStart) Unknown() bool {
	for _, err := range b.Refused {
		if errors.Is(err, futurejobs.ErrNotFound) {
			return true
		}
	}
	return false
}

// StartAll is Start for many jobs, by the newest versions of their rules. A refused job keeps none of the others out.
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
