package server

import "deadman/internal/store"

// WithLetterLimits returns the configuration with other limits of dead letters.
func (c Config) WithLetterLimits(limits store.LetterLimits) Config {
	c.letterLimits = limits
	return c
}
