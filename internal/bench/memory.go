package bench

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// memoryLook is how often the memory in use is looked at.
const memoryLook = 10 * time.Millisecond

// memoryWatch notes the most memory that this process has in use.
type memoryWatch struct {
	resets bool // the system notes it by itself, from the same moment on
	ending chan struct{}
	ended  sync.WaitGroup

	mu   sync.Mutex
	most int64
}

// watchMemory begins with what is in use now, after what is not used any more was given back.
func watchMemory() *memoryWatch {
	debug.FreeOSMemory()
	w := &memoryWatch{resets: resetResident(), ending: make(chan struct{})}
	w.look()
	w.ended.Go(func() {
		ticker := time.NewTicker(memoryLook)
		defer ticker.Stop()
		for {
			select {
			case <-w.ending:
				return
			case <-ticker.C:
				w.look()
			}
		}
	})
	return w
}

func (w *memoryWatch) look() {
	now := mapped()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, now)
}

// peak is the most that was in use until now, in bytes: what the system saw, with the program itself in
// it, or what the runtime had of the system where that says nothing.
func (w *memoryWatch) peak() int64 {
	if most := mostResident(); w.resets && most > 0 {
		return most
	}
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

func (w *memoryWatch) stop() {
	close(w.ending)
	w.ended.Wait()
}

// mapped is the memory that the runtime has of the system and has not given back.
func mapped() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
