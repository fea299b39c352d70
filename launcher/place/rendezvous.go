package place

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher/wire"
)

// Open listens at the rendezvous. It listens at the fallback if another user holds the
// socket; then that is the place's rendezvous. A listener that is open already is returned as
// it is.
func (p *Place) Open(inherited net.Listener, secret []byte) (net.Listener, error) {
	switch {
	case inherited != nil:
		return inherited, nil
	case p.Rendezvous.Network == "file":
		return p.openFile(secret)
	}
	l, err := net.Listen(p.Rendezvous.Network, p.Rendezvous.Socket())
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && p.Fallback != Rendezvous{} && p.Rendezvous.isForeign():
		p.Rendezvous = p.Fallback
		return p.openFile(secret)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("rendezvous %s is in use, by another job perhaps; choose another with --rdzv HOST:PORT", p.Where())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("rendezvous %s is not on this machine, where process 0 runs; give --rdzv HOST:PORT with this one's name or address", p.Rendezvous.Address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen at the rendezvous %s: %w; choose another with --rdzv HOST:PORT", p.Where(), err)
	}
	return l, nil
}

// openFile listens, and writes the record, unless a job meets there already.
func (p Place) openFile(secret []byte) (net.Listener, error) {
	if old, _, err := readRecord(p.Rendezvous.Address); errors.Is(err, ErrPlace) {
		return nil, err
	} else if err == nil && wire.Responds(old.Network, old.Socket()) {
		return nil, fmt.Errorf("rendezvous %s is in use by another job; name another with --rdzv", p.Rendezvous.Address)
	}
	host, err := p.ListenAddress()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other processes: %w", err)
	}
	if err := writeRecord(p.Rendezvous.Address, l.Addr().String(), secret); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot write the rendezvous file: %w; name another with --rdzv", err)
	}
	return l, nil
}

// Reopen opens the rendezvous on another machine, at that machine's address ip.
func (p Place) Reopen(ip string, secret []byte) (net.Listener, error) {
	r := p.Rendezvous
	switch r.Network {
	case "file":
		return p.openFile(secret)
	case "tcp":
		if _, port, err := net.SplitHostPort(r.Address); err == nil {
			r.Address = net.JoinHostPort(ip, port)
		}
	}
	return net.Listen(r.Network, r.Socket())
}

// isForeign reports whether another user holds a local socket. Any user may bind its name.
func (r Rendezvous) isForeign() bool {
	conn, err := net.DialTimeout(r.Network, r.Socket(), time.Second)
	if err != nil {
		return true
	}
	defer conn.Close()
	return errors.As(wire.CheckUser(conn), new(wire.OtherUser))
}

// handshakeKey is the key of handshakes at the rendezvous. It is empty where the kernel
// authenticates peers.
func (r Rendezvous) handshakeKey(secret []byte) []byte {
	if r.Network == "unix" {
		return []byte{}
	}
	return secret
}
