package pings

// Waiting returns the number of queued pings.
func (t *Receiver) Waiting() int { return len(t.queue) }
