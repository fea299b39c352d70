package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// peerUser is the user of the process at the other end of a local socket.
func peerUser(fd uintptr) (int, error) {
	peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(peer.Uid), nil
}
