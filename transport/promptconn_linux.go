package transport

import (
	"io"

	"golang.org/x/sys/unix"
)

// isPrompt means that readNow and writeNow are supported.
const isPrompt = true

// readNow reads bytes that a socket has. It returns EAGAIN if there are none.
func readNow(fd int, p []byte) (int, error) {
	for {
		switch n, err := unix.Read(fd, p); {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// writeNow writes as many bytes as a socket takes without waiting.
func writeNow(fd int, parts [][]byte) (n int, err error) {
	for {
		switch n, err = unix.Writev(fd, parts); err {
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return max(n, 0), err
		}
	}
}
