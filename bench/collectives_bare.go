package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// bareRing is a plain TCP connection from each process to the next one. It has neither frames nor
// checksums: the time in which it moves the bytes of a collective is a floor.
type bareRing struct {
	next, previous net.Conn
}

const (
	// bareLimit ends a turn of a ring whose process is lost.
	bareLimit    = 2 * time.Minute
	bareAddrSize = 64
)

// joinRing connects the processes of r. host is the address of this one.
func joinRing(r *collectivesRank, host string) (ring *bareRing, err error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(bareLimit))
	mine, all := make([]byte, bareAddrSize), make([]byte, bareAddrSize*r.ep.Size())
	if n := copy(mine, listener.Addr().String()); n == bareAddrSize {
		return nil, fmt.Errorf("bench: address %s is too long", listener.Addr())
	}
	if err := r.comm.AllGather(kernels.HostBuffer(all), kernels.HostBuffer(mine)).Wait(); err != nil {
		return nil, err
	}
	next := (r.ep.Rank() + 1) % r.ep.Size()
	addr := all[next*bareAddrSize:][:bareAddrSize]
	ring = &bareRing{}
	if ring.next, err = net.DialTimeout("tcp", string(addr[:slices.Index(addr, 0)]), bareLimit); err != nil {
		return nil, err
	}
	if ring.previous, err = listener.Accept(); err != nil {
		_ = ring.next.Close()
		return nil, err
	}
	return ring, nil
}

func (b *bareRing) closeRing() {
	_ = b.next.Close()
	_ = b.previous.Close()
}

// moveBytes moves the bytes of some operations: as many from each process to the next one as a rank
// must send in an operation. In a broadcast from rank 0 the last process sends nothing to it.
func (b *bareRing) moveBytes(r *collectivesRank, c collectiveCase, times int) error {
	bytes := int(float64(c.bytes) * c.traffic(float64(r.ep.Size())))
	until := time.Now().Add(bareLimit)
	_, _ = b.next.SetDeadline(until), b.previous.SetDeadline(until)
	sent := make(chan error, 1)
	sends, receives := times, times
	if c.oneWay && r.ep.Rank() == r.ep.Size()-1 {
		sends = 0
	}
	if c.oneWay && r.ep.Rank() == 0 {
		receives = 0
	}
	go func() {
		var err error
		for i := 0; i < sends && err == nil; i++ {
			for rest := bytes; rest > 0 && err == nil; rest -= c.bytes {
				_, err = b.next.Write(r.src.Host()[:min(rest, c.bytes)])
			}
		}
		sent <- err
	}()
	var err error
	for i := 0; i < receives && err == nil; i++ {
		for rest := bytes; rest > 0 && err == nil; rest -= c.bytes {
			_, err = io.ReadFull(b.previous, r.dst.Host()[:min(rest, c.bytes)])
		}
	}
	return errors.Join(err, <-sent)
}
