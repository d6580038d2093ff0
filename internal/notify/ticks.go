package notify

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
)

// TickWebhooks returns the names of the channels that can post the events of stored schedules.
func (n *Notifier) TickWebhooks() (names []string) {
	for name, spec := range n.file.Load().specs {
		if spec.Kind == Webhook {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// PostTicks posts events to a channel of the kind webhook, all at the same time. It returns the error of each; nil: the
// channel accepted it. An error contains no secrets.
func (n *Notifier) PostTicks(ctx context.Context, channel, source string, all []futurejobs.Emission) []error {
	results, file := make([]error, len(all)), n.file.Load()
	w, ok := file.channels[channel].(*webhook)
	if !ok {
		unknown := fmt.Errorf("no channel of the kind webhook is named %s; configure it in the file of channels", channel)
		for i := range results {
			results[i] = unknown
		}
		return results
	}
	var posting sync.WaitGroup
	for i, e := range all {
		posting.Go(func() {
			if err := w.postTick(ctx, e, source, n.now()); err != nil {
				results[i] = fmt.Errorf("webhook %s: %s", channel, file.specs[channel].reason(err))
			}
		})
	}
	posting.Wait()
	return results
}

// postTick posts an event in the binary mode of CloudEvents over HTTP, signed like messages. Its id is the same in each attempt.
func (w *webhook) postTick(ctx context.Context, e futurejobs.Emission, source string, now time.Time) error {
	r, err := newPost(ctx, w.url, w.header, e.Data)
	if err != nil {
		return err
	}
	for name, value := range e.Attributes(source) {
		r.Header.Set(name, value)
	}
	w.sign(r, e.ID, now, e.Data)
	return do(w.client, r)
}
