package notify

// Finish waits for the messages being sent.
func (n *Notifier) Finish() { n.sending.Wait() }
