package server

import (
	"time"

	"deadman/internal/store"
)

// WithLetterLimits returns the configuration with other limits of dead letters.
func (c Config) WithLetterLimits(limits store.LetterLimits) Config {
	c.letterLimits = limits
	return c
}

// WithQuotasEvery returns the configuration with another interval at which quotas are read.
func (c Config) WithQuotasEvery(interval time.Duration) Config {
	c.quotasEvery = interval
	return c
}
