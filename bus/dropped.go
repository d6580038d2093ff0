package bus

import "context"

// count takes in how many messages on the subjects follow the last one. There is one less with
// each that is read, and more with each that comes; so there were more than one only if the
// stream dropped the others.
func (r *reader) count(pending uint64) {
	if r.pending > pending+1 {
		r.dropped += r.pending - pending - 1
	}
	r.pending = pending
}

// Left implements events.Reader.
func (r *reader) Left() uint64 { return r.pending }

// Lost implements events.Reader. A stream that dropped all that was left has no message more
// to tell by, and its consumer is asked.
func (r *reader) Lost(ctx context.Context) (uint64, error) {
	if r.quiet && r.pending > 0 {
		done, err := r.exhausted(ctx)
		if err != nil {
			return 0, err
		}
		if done {
			r.dropped, r.pending = r.dropped+r.pending, 0
		}
	}
	n := r.dropped
	r.dropped = 0
	if r.match {
		return 0, nil // nobody knows on which subjects they were
	}
	return n, nil
}
