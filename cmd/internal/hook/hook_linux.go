package hook

import "syscall"

// attributes keeps signals of the terminal from a command, and kills it when this process is killed: another one may take over its work.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
