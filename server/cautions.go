package server

import (
	"context"
	"log/slog"
	"time"

	"deadman/checks/lookup"
)

// cautionsEvery is how often it is looked whether a source may do more than it should. It is memory that is looked at, but
// for sources that were not reached yet.
const cautionsEvery = time.Minute

// cautions logs what sources may do beyond answering questions, once each.
type cautions struct {
	sources sourceSet
	log     *slog.Logger
	reached map[string]bool
	said    map[string]string // by source
}

// Run looks until ctx ends.
func (c *cautions) Run(ctx context.Context) error {
	r := rounds{every: cautionsEvery, atOnce: true, do: c.step, log: c.log}
	return r.Run(ctx)
}

// step reaches the sources that know what they may do, and were not reached yet. One that is not there is tried
// again in the next round; that it fails is said where it is asked.
func (c *cautions) step(ctx context.Context) error {
	for _, name := range c.sources.Names() {
		source, ok := c.sources.Get(name)
		if !ok {
			continue
		}
		if _, ok := source.Client.(lookup.Cautious); !ok {
			continue
		}
		if !c.reached[name] {
			c.reached[name] = source.Try(ctx) == nil
		}
		says := source.State().Caution
		if says != "" && says != c.said[name] {
			c.log.Warn("a source may do more than it should", "source", name, "why", says)
		}
		c.said[name] = says
	}
	return nil
}
