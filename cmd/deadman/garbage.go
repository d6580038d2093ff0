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

// How much garbage there may be before it is collected. A node has little in use and leaves much while it sweeps.
const (
	garbagePercent = 200       // of what is in use, while the process takes less than ample
	ample          = 350 << 20 // bytes; beyond, half of the memory may be garbage
	memoryEvery    = time.Second
	cgroupPercent  = 80 // of the memory of the cgroup; the rest is for what the runtime does not count, such as SQLite's pages
)

// ofCgroup is the part of the memory of the process's cgroup that the runtime may use, in bytes; 0: there is no cgroup, or it has
// no limit.
var ofCgroup = sync.OnceValue(func() uint64 {
	limit, err := memlimit.FromCgroup()
	if err != nil || limit > math.MaxInt64 { // no cgroup, or no limit, is an error too
		return 0
	}
	return limit / 100 * cgroupPercent
})

// goalOf is the memory that the runtime is to keep to, in bytes, where so much is in use and a cgroup allows so much; 0: there is
// no cgroup. Beyond a cgroup's limit the kernel would end the process before the runtime collects what it could.
func goalOf(live, cgroup uint64) uint64 {
	goal := max(ample, 2*live)
	if cgroup > 0 {
		goal = min(goal, cgroup)
	}
	return goal
}

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

// limitMemory keeps the limit of the runtime at ample, or at twice what is in use where that is more, and within the cgroup: a limit
// close to what is in use would have the process do little but collect.
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

// memoryLimit is the limit that GOMEMLIMIT sets, or else the cgroup, in bytes; 0: neither sets one.
func memoryLimit() int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		return int64(ofCgroup()) //nolint:gosec // it is no more than the largest
	}
	return debug.SetMemoryLimit(-1) // a negative limit changes nothing
}
