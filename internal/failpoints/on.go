//go:build faultpoints

// Package failpoints names the places at which the fault campaign breaks a node, and injects the faults of a plan.
package failpoints

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrPlanned is the error injected by a plan.
var ErrPlanned = errors.New("planned failure")

var armed atomic.Pointer[Plan]

// Arm sets the plan of this process.
func Arm(p *Plan) { armed.Store(p) }

// Point marks a place: the process may be killed, stopped or delayed there.
func Point(place string) { _ = PointErr(place) } // an error has no effect here

// PointErr marks a place at which an operation may be reported as failed. It returns ErrPlanned if the plan has an
// error for it, and nil otherwise.
func PointErr(place string) error {
	for _, f := range armed.Load().due(place) {
		switch f.Action {
		case Kill:
			signal(syscall.SIGKILL)
			select {} // wait for the signal
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

// signal sends a signal to this process. Sending an existing signal does not fail.
func signal(s syscall.Signal) { _ = syscall.Kill(syscall.Getpid(), s) }
