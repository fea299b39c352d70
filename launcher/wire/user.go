package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// OtherUser is the user of a local socket's peer, if that is not this process's user.
type OtherUser int

func (u OtherUser) Error() string { return fmt.Sprintf("the peer is a process of user %d", int(u)) }

// CheckUser returns an OtherUser if the peer of a local socket runs as another user. It
// accepts connections of other networks.
func CheckUser(conn net.Conn) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return err
	}
	var user int
	if ctlErr := raw.Control(func(fd uintptr) {
		user, err = peerUser(fd)
	}); ctlErr != nil || err != nil {
		return errors.Join(ctlErr, err)
	}
	if user != os.Getuid() {
		return OtherUser(user)
	}
	return nil
}

// IPOf is the IP address of a socket's end, loopback's for a local socket.
func IPOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP != nil {
		return tcp.IP.String()
	}
	return "127.0.0.1"
}
