package storetest

import "syscall"

// endWithUs makes a child end with the thread that started it. The signal is Postgres' fast
// shutdown.
func endWithUs(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGINT, Setpgid: true}
}
