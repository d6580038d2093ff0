package bench

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// memoryLook is the interval of reading the memory in use.
const memoryLook = 10 * time.Millisecond

// memoryWatch records the maximum memory of this process.
type memoryWatch struct {
	resets bool // the system's maximum could be reset at the start
	ending chan struct{}
	ended  sync.WaitGroup

	mu   sync.Mutex
	most int64
}

// watchMemory returns unused memory to the system and starts recording.
func watchMemory() *memoryWatch {
	debug.FreeOSMemory()
	w := &memoryWatch{resets: resetResident(), ending: make(chan struct{})}
	w.sample()
	w.ended.Go(func() {
		ticker := time.NewTicker(memoryLook)
		defer ticker.Stop()
		for {
			select {
			case <-w.ending:
				return
			case <-ticker.C:
				w.sample()
			}
		}
	})
	return w
}

func (w *memoryWatch) sample() {
	now := mapped()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, now)
}

// peak returns the maximum memory so far, in bytes: as recorded by the system, including the program itself, or else
// the memory mapped by the runtime.
func (w *memoryWatch) peak() int64 {
	if most := mostResident(); w.resets && most > 0 {
		return most
	}
	w.sample()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

func (w *memoryWatch) stop() {
	close(w.ending)
	w.ended.Wait()
}

// mapped returns the memory that the runtime has mapped and not returned.
func mapped() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
