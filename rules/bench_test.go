package rules_test

import (
	"fmt"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

const orderEvent = `{"id":"e5fa5a7210941f7d56d0208e4e071d35","total":12.5,"placed_at":"2026-01-01T10:00:00Z","status":"UNSHIPPED","customer":"x"}`

// BenchmarkMatch measures an event: its cost must not grow with the number of rules.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(n, " rules"), func(b *testing.B) {
			catalog := rules.NewCatalog(benchmarkStore(b, n), shards)
			if err := catalog.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			e := futurejobs.Event{Stream: "S", Subject: "orders.r7.created", Seq: 9, At: time.Unix(1e9, 0), Data: []byte(orderEvent)}
			b.ReportAllocs()
			for b.Loop() {
				if effects, _ := catalog.Match(e); len(effects) != 1 {
					b.Fatal(effects)
				}
			}
		})
	}
}

// benchmarkStore returns a store with n rules, each with a subject of its own.
func benchmarkStore(b *testing.B, n int) rules.Store {
	s := openStore(b)
	for i := range n {
		saveRule(b, s, 0, fmt.Sprintf("name: r%d\nentity: order\ntrigger: {event: orders.r%d.created, key: event.id, if: event.total > 0}\nescalate: [{after: 3h}]\n", i, i))
	}
	return s
}

// BenchmarkRegister saves rules one after the other, as a client does: the ten thousandth must not cost more than the
// first.
func BenchmarkRegister(b *testing.B) {
	_, broker := newBroker(b)
	r := newRegistry(broker, openStore(b))
	for i := 0; b.Loop(); i++ {
		text := fmt.Sprintf("name: r%d\nentity: order\ntrigger: {event: orders.r%d.created, key: event.id}\nescalate: [{after: 3h}]\n", i, i%100)
		if _, err := r.Save(b.Context(), []byte(text), "", rules.SaveOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck measures a check with a real condition.
func BenchmarkCheck(b *testing.B) {
	h := compileRule(b, resolvableRule).Engine().Handler
	c := checks.Check{Key: "1", Since: since, Slot: clockTime(11, 15)}
	c.Event = []byte(`{"id":"e5fa5a7210941f7d56d0208e4e071d35","total":12.5,"placed_at":"2026-01-01T10:00:00Z","status":"OPEN","customer":"x"}`)
	c.State = c.Event
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Check(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := rules.Parse([]byte(resolvableRule), ""); err != nil {
			b.Fatal(err)
		}
	}
}
