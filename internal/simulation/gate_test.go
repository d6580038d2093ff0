package simulation_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"deadman/internal/store"
)

// errDead is the result of each call of a killed node.
var errDead = errors.New("the node is dead")

// errNoAnswer is the result of a call whose answer is lost: the caller does not know if the call took effect.
var errNoAnswer = fmt.Errorf("%w: the answer is lost", store.ErrUnavailable)

// gate lies between one start of a node and its servers. Each call of the database and of the broker passes it, where the call
// takes time, waits, fails, takes effect without an answer, or never returns because the node dies.
type gate struct {
	deployment *deployment
	node       string
	start      int // number of the start of the node

	dead chan struct{} // closed when the node dies
}

func newGate(w *deployment, node string, start int) *gate {
	return &gate{deployment: w, node: node, start: start, dead: make(chan struct{})}
}

// id returns the id of the node.
func (g *gate) id() string { return fmt.Sprintf("%s.%d", g.node, g.start) }

// luck returns the luck of a call that begins now. It depends on the seed, the node, the operation with its subject, and the
// time, and not on the order in which goroutines run: calls that agree in all of them have the same luck.
func (g *gate) luck(operation string) luck {
	return newLuck(g.deployment.plan.seed, g.id()+" "+operation, time.Now())
}

// sleep waits for d. It returns an error if the node dies or ctx ends before.
func (g *gate) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-g.dead:
	}
	select {
	case <-g.dead:
		return errDead
	default:
		return ctx.Err()
	}
}

// enter lets a call wait for its way to the server, and for the end of faults that delay it. It returns the error of a call
// that does not reach the server.
func (g *gate) enter(ctx context.Context, to server, l luck) error {
	if err := g.sleep(ctx, l.latency(g, to, toServer)); err != nil {
		return err
	}
	for {
		until, ok := g.deployment.delayed(g.node, to)
		if !ok {
			break
		}
		if err := g.sleep(ctx, time.Until(until)+l.between(0, time.Millisecond)); err != nil {
			return err
		}
	}
	if f, ok := g.deployment.active(fails[to], g.node); ok && l.share(1) < f.share/2 {
		g.deployment.count("call failed before it took effect")
		return store.ErrUnavailable
	}
	if to == database && g.deployment.ledger.overlaps {
		return g.sleep(ctx, time.Until(slotUp(time.Now(), meetEvery)))
	}
	return nil
}

// leave lets the answer of a call wait for its way back. It returns the error of a lost answer.
func (g *gate) leave(ctx context.Context, to server, l luck) error {
	if until, ok := g.deployment.delayed(g.node, to); ok {
		if err := g.sleep(ctx, time.Until(until)+l.between(0, time.Millisecond)); err != nil {
			return err
		}
	}
	if err := g.sleep(ctx, l.latency(g, to, toNode)); err != nil {
		return err
	}
	if f, ok := g.deployment.active(fails[to], g.node); ok && l.share(2) < f.share/2 {
		g.deployment.count("answer lost after the call took effect")
		return errNoAnswer
	}
	return nil
}

// call passes the gate with a call that has a result.
func call[T any](ctx context.Context, g *gate, to server, operation string, do func(context.Context) (T, error)) (result T, err error) {
	l := g.luck(operation)
	if f, ok := g.deployment.active(hang, g.node); ok && isWrite(operation) {
		if err := g.sleep(ctx, time.Until(f.to)+l.between(0, time.Second)); err != nil {
			g.deployment.arriveLate(f.to, func(ctx context.Context) error { _, err := do(ctx); return err })
			return result, fmt.Errorf("%s: %w", operation, err)
		}
	}
	if err := g.enter(ctx, to, l); err != nil {
		return result, fmt.Errorf("%s: %w", operation, err)
	}
	done, err := do(ctx)
	if lost := g.leave(ctx, to, l); lost != nil {
		return result, fmt.Errorf("%s: %w", operation, lost)
	}
	return done, err
}

// isWrite reports whether an operation is one of those that hang.
func isWrite(operation string) bool {
	name, _, _ := strings.Cut(operation, " ")
	return slices.Contains([]string{"Settle", "Apply", "MarkRead", "Renew", "Take", "MarkPublished", "ResetCursor", "Release", "Free", "DecideTicks", "ClaimTicks", "MarkEmitted"}, name)
}

// run passes the gate with a call without a result.
func run(ctx context.Context, g *gate, to server, operation string, do func(context.Context) error) error {
	_, err := call(ctx, g, to, operation, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// The ways of a call.
const (
	toServer uint64 = iota
	toNode
)

// luck is the source of what happens to one call. All of it derives from the seed.
type luck struct{ hash uint64 }

// newLuck returns the luck of something at a time.
func newLuck(seed uint64, of string, at time.Time) luck {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, seed)
	_, _ = h.Write([]byte(of))
	_ = binary.Write(h, binary.BigEndian, at.UnixNano())
	return luck{mix(h.Sum64())}
}

// mix spreads the bits of a hash (the finalizer of SplitMix64, https://doi.org/10.1145/2660193.2660195).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// share returns a number from 0 to 1 for each use of a luck.
func (l luck) share(use uint64) float64 {
	return float64(mix(l.hash+use*0x9e3779b97f4a7c15)>>11) / (1 << 53)
}

// between returns a duration from a up to b.
func (l luck) between(a, b time.Duration) time.Duration {
	return a + time.Duration(l.share(3)*float64(b-a))
}

// latency returns the time of the way of a call, or of its answer, between a node and a server. While the server is slow, a
// share of the ways takes seconds; while calls are stuck, a share takes longer than a lease.
func (l luck) latency(g *gate, to server, use uint64) time.Duration {
	l = luck{mix(l.hash + use)}
	if f, ok := g.deployment.active(slow[to], g.node); ok && l.share(4) < f.share/2 {
		return l.between(300*time.Millisecond, slowMost)
	}
	if f, ok := g.deployment.active(stuck, g.node); ok && to == database && l.share(4) < f.share/2 {
		return l.between(leaseFor/2, stuckMost)
	}
	return l.between(100*time.Microsecond, 3*time.Millisecond)
}
