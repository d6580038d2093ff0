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

// WithMaintenanceEvery returns the configuration with another interval of maintenance.
func (c Config) WithMaintenanceEvery(interval time.Duration) Config {
	c.maintainEvery = interval
	return c
}

// WithOverdueAfter returns the configuration with another age at which due jobs and standstills are reported.
func (c Config) WithOverdueAfter(age time.Duration) Config {
	c.overdueAfter = age
	return c
}
