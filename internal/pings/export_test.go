package pings

// Waiting is how many pings wait.
func (t *Receiver) Waiting() int { return len(t.queue) }
