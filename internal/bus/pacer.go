package bus

import "sync/atomic"

// How much goes out at once.
const (
	batchMost  = 1000    // alerts of a batch: the most that a server takes
	batchBytes = 4 << 20 // of a batch, if it is more than one alert
	waveMost   = 256     // alerts that are on their way one by one
)

// pacer fits how much goes out at once to what the broker and the way to it manage in time:
// half after each silence, twice as much after each answer. Without it, what takes longer
// than an answer may take would be sent again and again, and never be known to be there.
type pacer struct{ less atomic.Int64 } // than batchMost

func (p *pacer) window() int { return batchMost - int(p.less.Load()) }

// record says that there was an answer to so many alerts, or none.
func (p *pacer) record(answer bool, sent int) {
	most := p.window() * 2
	if !answer {
		most = max(sent/2, 1)
	}
	p.less.Store(int64(batchMost - min(most, batchMost)))
}
