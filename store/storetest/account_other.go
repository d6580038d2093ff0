//go:build !linux

package storetest

import "syscall"

// endWithUs cannot be had everywhere; Stop has to be called.
func endWithUs(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
