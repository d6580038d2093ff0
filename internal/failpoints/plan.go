//go:build faultpoints

package failpoints

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Action is the effect of a fault.
type Action string

// The actions.
const (
	Kill  Action = "kill"  // the process ends at once, as by kill -9
	Stop  Action = "stop"  // the process is stopped until SIGCONT
	Sleep Action = "sleep" // the caller is delayed
	Error Action = "error" // the operation is reported as failed, if the place allows it
)

// Fault is an action at a place.
type Fault struct {
	Place  string
	Action Action
	For    time.Duration // duration of Sleep
	At     int           // the pass at which it happens, from 1; 0: see Chance
	Chance float64       // probability at each pass
}

// Plan is the list of faults of one process. It is safe for concurrent use.
type Plan struct {
	faults []Fault

	mu     sync.Mutex
	passes map[string]int
	random *rand.Rand
}

// Parse parses a plan: faults separated by semicolons, each "place=action" or "place=sleep:200ms", optionally followed
// by "@3" for the third pass only, or "@0.1" for one pass in ten. "seed=42" makes the random choices reproducible.
func Parse(text string) (*Plan, error) {
	p := &Plan{passes: make(map[string]int)}
	seed := uint64(1)
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		place, what, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("fault %q: write place=action, such as relay.published=kill@3", part)
		}
		var err error
		if place == "seed" {
			seed, err = strconv.ParseUint(what, 10, 64)
		} else {
			err = p.add(place, what)
		}
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
	}
	p.random = rand.New(rand.NewPCG(seed, 0))
	return p, nil
}

func (p *Plan) add(place, what string) error {
	f := Fault{Place: place, Chance: 1}
	what, when, some := strings.Cut(what, "@")
	action, span, _ := strings.Cut(what, ":")
	f.Action = Action(action)
	if !slices.Contains([]Action{Kill, Stop, Sleep, Error}, f.Action) {
		return fmt.Errorf("unknown action %q; use kill, stop, sleep or error", action)
	}
	var err error
	if f.For, err = time.ParseDuration(span); (f.Action == Sleep) != (err == nil) {
		return fmt.Errorf("only sleep has a duration, such as sleep:200ms")
	}
	if some {
		if f.At, err = strconv.Atoi(when); err != nil {
			f.At = 0
			f.Chance, err = strconv.ParseFloat(when, 64)
		}
		if err != nil || f.At < 0 || f.Chance <= 0 || f.Chance > 1 || f.At == 0 && !strings.Contains(when, ".") {
			return fmt.Errorf("%q is neither the number of a pass, from 1, nor a chance such as 0.1", when)
		}
	}
	p.faults = append(p.faults, f)
	return nil
}

// due counts a pass and returns its faults. A nil plan has none.
func (p *Plan) due(place string) (due []Fault) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes[place]++
	for _, f := range p.faults {
		if f.Place == place && (f.At == p.passes[place] || f.At == 0 && p.random.Float64() < f.Chance) {
			due = append(due, f)
		}
	}
	return due
}
