package server

import (
	"context"
	"log/slog"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/periodic"
)

// permissionCheckInterval is the interval of the checks for excess permissions of sources. They read memory, except for sources
// not reached yet.
const permissionCheckInterval = time.Minute

// permissionWarnings logs excess permissions of sources, once each.
type permissionWarnings struct {
	sources  sourceSet
	log      *slog.Logger
	reached  map[string]*lookup.Source // by name
	cautions map[string]string         // likewise
}

// Run runs steps until ctx ends.
func (c *permissionWarnings) Run(ctx context.Context) error {
	return periodic.Run(ctx, permissionCheckInterval, c.log, "source permissions check", c.step)
}

// step connects to sources that can report their permissions and were not reached yet. An unreachable source is
// retried in the next round; lookups report its failure.
func (c *permissionWarnings) step(ctx context.Context) error {
	for _, name := range c.sources.Names() {
		source, ok := c.sources.Get(name)
		if !ok {
			continue
		}
		if _, ok := source.Client.(lookup.Cautious); !ok {
			continue
		}
		if c.reached[name] != source && source.Try(ctx) == nil {
			c.reached[name] = source
		}
		caution := source.State().Caution
		if caution != "" && caution != c.cautions[name] {
			c.log.Warn("a source may do more than it should", "source", name, "why", caution)
		}
		c.cautions[name] = caution
	}
	return nil
}
