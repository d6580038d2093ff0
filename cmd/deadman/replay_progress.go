package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// progress shows on a terminal how far a replay has come.
type progress struct {
	io     *cli
	events int64
	began  time.Time
	shown  time.Time
}

// progressEvery is the number of events after which the clock is read.
const progressEvery = 1 << 12

// show counts an event.
func (p *progress) show(at time.Time) {
	if p.events++; p.events%progressEvery != 0 || !isTerminal(p.io.err) {
		return
	}
	now := p.io.now()
	if p.began.IsZero() {
		p.began, p.shown = now, now
	}
	if now.Sub(p.shown) < time.Second/2 {
		return
	}
	p.shown = now
	rate := float64(p.events) / max(now.Sub(p.began).Seconds(), 0.001)
	fmt.Fprintf(p.io.err, "\r\x1b[K%s events, %s, %s a second", humanize.Comma(p.events), p.io.exact(at), humanize.Comma(int64(rate)))
}

// clear removes the line.
func (p *progress) clear() {
	if !p.shown.IsZero() && !p.shown.Equal(p.began) {
		fmt.Fprint(p.io.err, "\r\x1b[K")
	}
}
