package main

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limits of garbage before a collection. A node has a small live heap and leaves much garbage during a sweep.
const (
	garbagePercent = 200       // percent of the live heap, while the process is below ample
	ample          = 350 << 20 // in bytes; above it, garbage is limited to half of the memory
	memoryEvery    = time.Second
	cgroupPercent  = 80 // percent of the cgroup's memory; the rest is for memory outside the runtime, such as SQLite's pages
)

// ofCgroup returns the runtime's share of the cgroup's memory limit, in bytes. It is 0 without a cgroup or a limit.
var ofCgroup = sync.OnceValue(func() uint64 {
	limit, err := memlimit.FromCgroup()
	if err != nil || limit > math.MaxInt64 { // no cgroup and no limit are errors too
		return 0
	}
	return limit / 100 * cgroupPercent
})

// goalOf returns the memory limit of the runtime for a live heap and a cgroup limit; 0 means no cgroup. Above its
// cgroup's limit the kernel would kill the process before the runtime collects garbage.
func goalOf(live, cgroup uint64) uint64 {
	goal := max(ample, 2*live)
	if cgroup > 0 {
		goal = min(goal, cgroup)
	}
	return goal
}

// boundGarbage configures the garbage collector: garbage may be twice the live heap, and less once the process
// exceeds ample. A slot of large bodies turns most of its memory into garbage. GOGC and GOMEMLIMIT each override
// their part.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		go limitMemory()
	}
}

// limitMemory keeps the runtime's memory limit at ample, or at twice the live heap if that is more, but within the
// cgroup. A limit close to the live heap would make the process collect all the time.
func limitMemory() {
	var limit uint64
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for tick := time.NewTicker(memoryEvery); ; <-tick.C {
		metrics.Read(live)
		if to := goalOf(live[0].Value.Uint64(), ofCgroup()); to != limit {
			limit = to
			debug.SetMemoryLimit(int64(to)) //nolint:gosec // not that much memory
		}
	}
}

// memoryLimit returns the limit of GOMEMLIMIT, or else of the cgroup, in bytes. It is 0 without either.
func memoryLimit() int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		return int64(ofCgroup()) //nolint:gosec // it is no more than the largest
	}
	return debug.SetMemoryLimit(-1) // a negative limit only reads the current one
}
