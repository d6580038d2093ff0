package bus

import "sync/atomic"

// pacer adapts the number of alerts in flight to the broker and the network. It halves the number after a timeout and
// doubles it after an answer. Otherwise a batch too slow for its timeout would be sent again and again without ever
// being confirmed.
type pacer struct{ less atomic.Int64 } // difference to batchMost

func (p *pacer) window() int { return batchMost - int(p.less.Load()) }

// record records whether sent alerts were answered.
func (p *pacer) record(answer bool, sent int) {
	limit := p.window() * 2
	if !answer {
		limit = max(sent/2, 1)
	}
	p.less.Store(int64(batchMost - min(limit, batchMost)))
}
