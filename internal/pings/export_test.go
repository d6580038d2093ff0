package pings

// Waiting is how many pings wait.
func (t *Taker) Waiting() int { return len(t.queue) }
