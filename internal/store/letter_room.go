package store

import (
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
)

// letterRoom bounds the dead letters that a node writes in a period. Without it, letters beyond the caps would fill the
// disk until the next pruning, one letter for each rule that refused an event. The zero value has the default limits. It
// is safe for concurrent use.
type letterRoom struct {
	mu      sync.Mutex
	limits  LetterLimits // zero: DefaultLetterLimits
	until   time.Time    // the end of the current period
	letters letterPool
	bytes   letterPool
}

// open returns the limits of the current period, and starts a new one if necessary. r.mu is locked.
func (r *letterRoom) open() LetterLimits {
	if r.limits == (LetterLimits{}) {
		r.limits = DefaultLetterLimits
	}
	if now := time.Now(); now.After(r.until) {
		r.until, r.letters, r.bytes = now.Add(r.limits.Period), newLetterPool(), newLetterPool()
	}
	return r.limits
}

// letterHold is the capacity that one batch has taken. It implements futurejobs.LetterRoom. It is not safe for
// concurrent use.
type letterHold struct {
	room     *letterRoom
	tenantOf func(rule string) string
	until    time.Time // the period of taken
	taken    map[letterUser]letterUse
}

// letterUser is a rule of a tenant; an empty tenant: none.
type letterUser struct{ rule, tenant string }

// letterUse is the capacity that a batch has taken for one rule.
type letterUse struct{ letters, bytes int64 }

// Take implements futurejobs.LetterRoom.
func (h *letterHold) Take(rule string) bool { return h.take(rule, 1, 0) }

// keep returns the letters to be written: those within the capacity, without headers and bodies beyond it, and summaries
// of the others. It does not change the passed letters. A nil hold keeps all.
func (h *letterHold) keep(letters []futurejobs.DeadLetter) []futurejobs.DeadLetter {
	if h == nil || len(letters) == 0 {
		return letters
	}
	var beyond futurejobs.Summaries
	kept := make([]futurejobs.DeadLetter, 0, len(letters))
	for _, l := range letters {
		if !h.Take(l.Rule) {
			beyond.Add(l)
			continue
		}
		kept = append(kept, l)
	}
	h.trim(kept)
	return append(kept, beyond.All()...)
}

// trim removes headers and bodies beyond the capacity from letters. A nil hold removes none.
func (h *letterHold) trim(letters []futurejobs.DeadLetter) {
	if h == nil {
		return
	}
	for i := range letters {
		l := &letters[i]
		bytes := int64(len(l.Event.Data)) + int64(len(l.Event.ID)) + headerBytes(l.Event.Header)
		if l.Summarized > 0 || bytes == 0 || h.take(l.Rule, 0, bytes) {
			continue
		}
		l.Size, l.Event.Data, l.Event.Header, l.Event.ID = max(l.Size, int(bytes)), nil, nil, ""
	}
}

// take takes capacity for letters or bytes of a rule, and reports whether both sufficed.
func (h *letterHold) take(rule string, letters, bytes int64) bool {
	r, tenant := h.room, h.tenantOf(rule)
	r.mu.Lock()
	defer r.mu.Unlock()
	limits := r.open()
	if !r.letters.fits(limits.Letters, rule, tenant, letters) || !r.bytes.fits(limits.Bytes, rule, tenant, bytes) {
		return false
	}
	r.letters.add(limits.Letters, rule, tenant, letters)
	r.bytes.add(limits.Bytes, rule, tenant, bytes)
	if h.taken == nil || !h.until.Equal(r.until) {
		h.until, h.taken = r.until, make(map[letterUser]letterUse)
	}
	use := h.taken[letterUser{rule, tenant}]
	h.taken[letterUser{rule, tenant}] = letterUse{use.letters + letters, use.bytes + bytes}
	return true
}

// giveBack frees the capacity of a batch that was not committed. That of an earlier period is free already.
func (h *letterHold) giveBack() {
	if h == nil {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.until.Equal(r.until) {
		for of, use := range h.taken {
			r.letters.add(r.limits.Letters, of.rule, of.tenant, -use.letters)
			r.bytes.add(r.limits.Bytes, of.rule, of.tenant, -use.bytes)
		}
	}
	h.taken = nil
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
