package transport

import (
	"os"

	"golang.org/x/sys/unix"
)

// bells are one side's ends of two pipes. A byte in a pipe wakes the goroutine that serves the
// rings of one side. In contrast to a futex, a pipe needs no thread that waits. Such a thread
// would keep its place among GOMAXPROCS until the Go runtime looks for it, which may take 10 ms.
type bells struct {
	wait        *os.File // where this side waits
	here, there int      // files where a byte wakes this side, and the other
}

// silentBells has no pipes yet.
func silentBells() bells { return bells{here: -1, there: -1} }

// createBells makes both pipes. reads is where the other side waits.
func (b *bells) createBells() (reads int, err error) {
	var mine, theirs [2]int
	if err := unix.Pipe2(mine[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	b.wait, b.here = os.NewFile(uintptr(mine[0]), "doorbell"), mine[1]
	if err := unix.Pipe2(theirs[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	b.there = theirs[1]
	return theirs[0], nil
}

// openBells opens the other ends of the pipes that another process made.
func (b *bells) openBells(name segmentName) (err error) {
	open := func(fd uint64, mode int) int {
		n := -1
		if err == nil {
			n, err = unix.Open(fileOf(name.pid, fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
		return n
	}
	b.there, b.here = open(name.makerWrites, unix.O_WRONLY), open(name.readerWrites, unix.O_WRONLY)
	if reads := open(name.reads, unix.O_RDONLY); err == nil {
		b.wait = os.NewFile(uintptr(reads), "doorbell")
	}
	return err
}

func (b *bells) closeBells() {
	if b.wait != nil {
		_ = b.wait.Close()
	}
	for _, fd := range []int{b.here, b.there} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// sleep waits until this side is woken. It may return early.
func (b *bells) sleep() error {
	var woken [64]byte // more than one may have been sent since the last time
	_, err := b.wait.Read(woken[:])
	return err
}

// wake wakes a side. If the pipe is full, that side is awake already. A side that has ended
// reads nothing, and the error says no more than that.
func wake(fd int) {
	one := [1]byte{1}
	_, _ = unix.Write(fd, one[:])
}
