package events_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"deadman/internal/bus"
)

// Three trigger events of a rule in a row that are refused raise an alert, even of a rule with few events: its producer may have
// renamed a field. An accepted one in between ends the row, and another rule has a row of its own.
func TestRefusedTriggersAreAlerted(t *testing.T) {
	const fine, noKey, noJSON, noResolve = `order.created {"id":"%d"}`, `order.created {"number":%d}`, `order.created {"id":%d`, `order.shipped {"order":%d}`
	for name, c := range map[string]struct {
		sent   []string
		alerts int
	}{
		"two":                          {[]string{noKey, noKey}, 0},
		"three":                        {[]string{noKey, noKey, noKey}, 1},
		"many, and one alert":          {slices.Repeat([]string{noKey}, 12), 1},
		"no JSON":                      {[]string{noJSON, noKey, noJSON}, 1},
		"one of three is accepted":     {[]string{noKey, noKey, fine, noKey, noKey}, 0},
		"the first is accepted":        {[]string{fine, noKey, noKey, noKey}, 1},
		"resolves":                     {[]string{noResolve, noResolve, noResolve, noResolve}, 0},
		"two, and those of other rule": {[]string{noKey, `parcel.created {"number":%d}`, noKey, `parcel.created {"number":%d}`}, 0},
	} {
		for _, isApart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in batches of their own: %t", name, isApart), func(t *testing.T) {
				t.Parallel()
				w := newFixture(t)
				w.saveOrderRule("order")
				w.saveOrderRule("parcel")
				w.start()
				last := uint64(0)
				for i, line := range append(c.sent, `parcel.created {"id":"%d"}`) { // the batch of the last one is behind the alert
					if isApart || i == len(c.sent) {
						w.waitUntilCaughtUp(bus.EventsStream, last)
					}
					subject, body, _ := strings.Cut(fmt.Sprintf(line, i), " ")
					last = w.publish(subject, body)
				}
				w.waitUntilCaughtUp(bus.EventsStream, last)
				var texts []string
				for _, a := range w.systemAlerts() {
					if a.Step == "trigger-refused" {
						texts = append(texts, a.Key+": "+a.Text)
					}
				}
				if len(texts) != c.alerts {
					t.Errorf("%d alerts, want %d: %s", len(texts), c.alerts, texts)
				}
				for _, text := range texts {
					if !strings.HasPrefix(text, "rule/order-unshipped: rule order-unshipped: ") || !strings.Contains(text, " trigger events in a row were refused, the first of them at ") || !strings.Contains(text, "deadman dead-letter list --rule order-unshipped") {
						t.Error(text)
					}
				}
			})
		}
	}
}
