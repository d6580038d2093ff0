package replay_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"deadman/internal/replay"
)

const oneStep = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3h, step: late, severity: warning}
`

// orderLines returns events of a number of orders, one a second: every tenth order is shipped after four hours, the others after
// one.
func orderLines(orders int) []byte {
	var b bytes.Buffer
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(subject string, order int, at time.Time) {
		fmt.Fprintf(&b, `{"subject":%q,"time":%q,"data":{"id":"order-%d","customer":"acme","amount":129.5}}`+"\n", subject, at.Format(time.RFC3339), order)
	}
	shipped := func(second int) {
		for hours, isLate := range map[int]bool{1: false, 4: true} {
			if order := second - hours*3600; order >= 0 && order < orders && (order%10 == 0) == isLate {
				write("orders.shipped", order, start.Add(time.Duration(second)*time.Second))
			}
		}
	}
	for second := range orders + 4*3600 {
		shipped(second)
		if second < orders {
			write("orders.created", second, start.Add(time.Duration(second)*time.Second))
		}
	}
	return b.Bytes()
}

// BenchmarkReplay plays a rule with one step over JSON lines.
func BenchmarkReplay(b *testing.B) {
	lines := orderLines(100_000)
	events := bytes.Count(lines, []byte("\n"))
	b.ResetTimer()
	for b.Loop() {
		r := replayOf(b, oneStep, nil, time.Time{})
		if s := play(b, r, replay.NewSorted(replay.NewJSONLines(bytes.NewReader(lines)), time.Minute)); s.Rules[0].Late != 10_000 {
			b.Fatalf("%+v", s.Rules[0])
		}
	}
	b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
}
