package bus

import (
	"context"
	"iter"

	"deadman/alerts"
)

// AlertsBetween yields the alerts of the stream after one sequence and up to another, in order. It skips other
// messages. An error ends the sequence.
func (b *Bus) AlertsBetween(ctx context.Context, after, through uint64) iter.Seq2[alerts.Alert, error] {
	return func(yield func(alerts.Alert, error) bool) {
		if after >= through {
			return
		}
		if err := b.alertsBetween(ctx, after, through, yield); err != nil {
			yield(alerts.Alert{}, err)
		}
	}
}

func (b *Bus) alertsBetween(ctx context.Context, after, through uint64, yield func(alerts.Alert, error) bool) error {
	opened, err := b.Read(ctx, AlertsStream, after, nil)
	if err != nil {
		return err
	}
	defer opened.Close()
	r := opened.(*reader) //nolint:forcetypeassert // Read returns no other
	for {
		got, err := r.Next(ctx, pullMessages, followWait)
		if err != nil {
			return err
		}
		for _, e := range got {
			if e.Seq > through {
				return nil
			}
			if a, err := alertOf(e); err == nil && !yield(a, nil) || e.Seq == through {
				return nil
			}
		}
		if len(got) > 0 {
			continue
		}
		if done, err := r.exhausted(ctx); done || err != nil {
			return err
		}
	}
}
