package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage there may be before it is collected. A node has little in use and leaves much while it sweeps.
const (
	garbagePercent = 200       // of what is in use, while the process takes less than ample
	ample          = 350 << 20 // bytes; beyond, half of the memory may be garbage
	memoryEvery    = time.Second
)

// boundGarbage sets when the runtime collects garbage: when there is twice as much of it as is in use, and sooner where the
// process takes more than ample. A slot of large bodies leaves most of what it used as garbage. GOGC and GOMEMLIMIT each replace
// their part of that.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		go limitMemory()
	}
}

// limitMemory keeps the limit of the runtime at ample, or at twice what is in use where that is more: a limit close to
// what is in use would have the process do little but collect.
func limitMemory() {
	var limit uint64
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for tick := time.NewTicker(memoryEvery); ; <-tick.C {
		metrics.Read(live)
		if to := max(ample, 2*live[0].Value.Uint64()); to != limit {
			limit = to
			debug.SetMemoryLimit(int64(to)) //nolint:gosec // not that much memory
		}
	}
}

// memoryLimit is the limit that GOMEMLIMIT sets, in bytes; 0: it sets none.
func memoryLimit() int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		return 0
	}
	return debug.SetMemoryLimit(-1) // a negative limit changes nothing
}
