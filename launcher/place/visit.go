package place

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// visitEvery is the pause between attempts to reach the rendezvous.
const visitEvery = 20 * time.Millisecond

// ErrCancelled ends a Visit that the caller cancelled.
var ErrCancelled = errors.New("stopped before the job began")

// Visit is how a process joins at the rendezvous.
type Visit struct {
	Secret    []byte
	Handshake time.Duration // limit of one handshake
	Meet      time.Duration // limit of all attempts
	Notice    time.Duration // until Waiting is called, once
	Waiting   func(why error)
	// Introduce returns the join message, given the local address of the connection.
	Introduce func(local net.Addr) (control.Message, error)
	Cancelled <-chan struct{}
}

// Visited is the result of a Visit.
type Visited struct {
	Conn    *wire.Conn
	Welcome control.Message
	Secret  []byte // the job's
}

// errFinal is an error of an attempt that no further attempt can mend.
type errFinal struct{ error }

// Visit joins at the rendezvous. It tries until that replies. If the fallback replied, that
// is the place's rendezvous then.
func (p *Place) Visit(v Visit) (Visited, error) {
	began, noted := time.Now(), false
	for {
		got, err := p.visitEither(v)
		waited := time.Since(began)
		var dns *net.DNSError
		switch {
		case err == nil:
			return got, nil
		case errors.As(err, new(errFinal)):
			return got, fmt.Errorf("rendezvous %s: %w", p.Where(), err)
		case errors.As(err, &dns) && dns.IsNotFound && waited > v.Handshake:
			return got, fmt.Errorf("rendezvous %s: the name %s has no address on this machine; give --rdzv HOST:PORT with an address of process 0's, or a name that all machines resolve", p.Rendezvous.Address, dns.Name)
		case waited > v.Meet && p.Rendezvous.Network == "file":
			return got, fmt.Errorf("rendezvous %s: process 0 was not found by this file for %v (%w); was it started? do all machines see this folder? name another with --rdzv FILE, or give --rdzv HOST:PORT",
				p.Where(), v.Meet, err)
		case waited > v.Meet:
			return got, fmt.Errorf("rendezvous %s: process 0 was not found there for %v (%w); was it started? is the address right? give another with --rdzv HOST:PORT",
				p.Where(), v.Meet, cmp.Or(errors.Unwrap(err), err))
		case waited > v.Notice && !noted:
			noted = true
			v.Waiting(cmp.Or(errors.Unwrap(err), err))
		}
		select {
		case <-time.After(visitEvery):
		case <-v.Cancelled:
			return got, ErrCancelled
		}
	}
}

// visitEither tries the rendezvous once, and then the fallback.
func (p *Place) visitEither(v Visit) (Visited, error) {
	got, err := p.visitOnce(v)
	if err == nil || p.Fallback == (Rendezvous{}) || errors.As(err, new(errFinal)) {
		return got, err
	}
	fallback := *p
	fallback.Rendezvous = p.Fallback
	if got, fallbackErr := fallback.visitOnce(v); fallbackErr == nil || errors.As(fallbackErr, new(errFinal)) {
		*p = fallback
		return got, fallbackErr
	}
	return got, err // the fallback's file may be stale
}

// locate is the rendezvous's socket and secret: a file holds both.
func (r Rendezvous) locate(secret []byte) (Rendezvous, []byte, error) {
	if r.Network == "file" {
		return readRecord(r.Address)
	}
	return r, secret, nil
}

// Responds reports whether a process of some job listens at the rendezvous.
func (p Place) Responds(secret []byte) bool {
	at, _, err := p.Rendezvous.locate(secret)
	return err == nil && wire.Responds(at.Network, at.Socket())
}

func (p Place) visitOnce(v Visit) (Visited, error) {
	at, secret, err := p.Rendezvous.locate(v.Secret)
	if err != nil {
		if errors.Is(err, ErrPlace) {
			err = errFinal{err}
		}
		return Visited{}, err
	}
	conn, err := net.DialTimeout(at.Network, at.Socket(), v.Handshake)
	if err != nil {
		return Visited{}, err
	}
	c, welcome, err := p.introduceTo(conn, secret, v)
	if err != nil {
		conn.Close()
		return Visited{Welcome: welcome}, err
	}
	if p.Rendezvous.Network == "unix" {
		secret = welcome.Secret
	}
	return Visited{c, welcome, bytes.Clone(secret)}, nil
}

// introduceTo runs the handshake, and distinguishes final errors from temporary ones.
func (p Place) introduceTo(conn net.Conn, secret []byte, v Visit) (*wire.Conn, control.Message, error) {
	join, err := v.Introduce(conn.LocalAddr())
	if err != nil {
		return nil, join, errFinal{err}
	}
	c, answer, err := wire.Introduce(conn, p.Rendezvous.handshakeKey(secret), join, v.Handshake)
	var refusal wire.Refusal
	isRefusal := errors.As(err, &refusal)
	switch {
	case (errors.Is(err, wire.ErrProtocol) || isRefusal && !refusal.Verified) && p.Rendezvous.Network == "file":
		return nil, answer, errors.New("the file is old: another program listens there now")
	case isRefusal:
		return nil, answer, errFinal{fmt.Errorf("process %d was refused: %s", p.Process, refusal)}
	case errors.Is(err, wire.ErrProtocol):
		return nil, answer, errFinal{errors.New("the program that listens there is not this job's process 0; choose another address with --rdzv HOST:PORT")}
	case errors.As(err, new(wire.OtherUser)) && p.Fallback != Rendezvous{}:
		return nil, answer, err
	case err != nil && !errors.Is(err, wire.ErrBroken) && !errors.Is(err, wire.ErrSilent):
		return nil, answer, errFinal{err}
	}
	return c, answer, err
}
