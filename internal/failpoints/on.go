//go:build faultpoints

// Package failpoints names the places at which the fault campaign breaks a node, and breaks it
// there as a plan says.
package failpoints

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrPlanned is the failure that a plan asked for.
var ErrPlanned = errors.New("a failure that was planned")

var armed atomic.Pointer[Plan]

// Arm makes a plan the one of this process.
func Arm(p *Plan) { armed.Store(p) }

// Point passes a place: the process may be killed or stopped there, or wait.
func Point(place string) { _ = PointErr(place) } // where nothing can fail, nothing does

// PointErr passes a place at which an operation may be said to have failed. It returns
// ErrPlanned where the plan asks for that, and else nil.
func PointErr(place string) error {
	for _, f := range armed.Load().due(place) {
		switch f.Action {
		case Kill:
			signal(syscall.SIGKILL)
			select {} // nothing is done after it
		case Stop:
			signal(syscall.SIGSTOP)
		case Sleep:
			time.Sleep(f.For)
		case Error:
			return ErrPlanned
		}
	}
	return nil
}

// signal sends a signal to this process. That cannot fail for a signal that exists.
func signal(s syscall.Signal) { _ = syscall.Kill(syscall.Getpid(), s) }
