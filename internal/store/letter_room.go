package store

import (
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
)

const (
	// letterWindow is the period of the capacity for bodies: about the time until they are capped.
	letterWindow = time.Minute
	// tenantLetters is the divisor of the total for the bodies of one tenant in that time.
	tenantLetters = 4
)

// letterRoom bounds the headers and bodies of dead letters that a node writes in a minute. Those beyond the caps would
// be deleted again, and would fill the disk until then, once for each rule that refused an event. Beyond the capacity,
// a letter is written without them, like one with a capped body. The zero value is ready to use, and it is safe for
// concurrent use.
type letterRoom struct {
	mu      sync.Mutex
	until   time.Time
	all     int64            // bytes
	rules   map[string]int64 // bytes
	tenants map[string]int64 // bytes
}

// trim returns the letters to be written, without headers and bodies beyond the capacity.
func (r *letterRoom) trim(letters []futurejobs.DeadLetter, tenantOf func(rule string) string) []futurejobs.DeadLetter {
	if len(letters) == 0 {
		return letters
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.until) {
		r.until, r.all, r.rules, r.tenants = now.Add(letterWindow), 0, make(map[string]int64), make(map[string]int64)
	}
	trimmed := slices.Clone(letters)
	for i := range trimmed {
		l := &trimmed[i]
		if bytes := int64(len(l.Event.Data)) + headerBytes(l.Event.Header); bytes > 0 && !r.take(l.Rule, tenantOf(l.Rule), bytes) {
			l.Size, l.Event.Data, l.Event.Header = max(l.Size, int(bytes)), nil, nil
		}
	}
	return trimmed
}

// headerBytes returns the approximate size of headers.
func headerBytes(header map[string][]string) (bytes int64) {
	for name, values := range header {
		for _, value := range values {
			bytes += int64(len(name) + len(value))
		}
	}
	return bytes
}

// take takes capacity for a body and reports whether it sufficed.
func (r *letterRoom) take(rule, tenant string, bytes int64) bool {
	caps := DefaultLetterCaps
	if r.all+bytes > caps.TotalBytes || r.rules[rule]+bytes > caps.BodyBytes || tenant != "" && r.tenants[tenant]+bytes > caps.TotalBytes/tenantLetters {
		return false
	}
	r.all, r.rules[rule] = r.all+bytes, r.rules[rule]+bytes
	if tenant != "" {
		r.tenants[tenant] += bytes
	}
	return true
}
