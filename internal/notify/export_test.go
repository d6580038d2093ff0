package notify

// Finish waits until the messages that are being sent are taken or refused.
func (n *Notifier) Finish() { n.sending.Wait() }
