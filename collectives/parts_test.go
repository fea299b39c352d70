package collectives_test

import (
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// posted records the first byte of each message that is posted, by peer. It then spoils the lengths that were read for it.
type posted struct {
	transport.Endpoint
	sent, received     []byte
	sentBytes, inBytes []int
}

type done struct{}

func (done) Wait() error { return nil }

func (p *posted) Send(to int, _ transport.Tag, b []byte) transport.Request {
	p.sent[to] = b[0]
	if p.sentBytes != nil {
		p.sentBytes[to] = 0
	}
	return done{}
}

func (p *posted) Recv(from int, _ transport.Tag, b []byte) transport.Request {
	p.received[from], p.inBytes[from] = b[0], 0
	return done{}
}

// TestPlacesOfPartsAreFoundOnce: an operation adds up the lengths of its parts once, and not again for each rank: n ranks would
// add up n^2 lengths.
func TestPlacesOfPartsAreFoundOnce(t *testing.T) {
	const n, rank, part = 6, 3, 7
	dev := newDevice(t)
	ep := &posted{Endpoint: mem(n)[rank], sent: make([]byte, n), received: make([]byte, n)}
	s := dev.Stream(1)
	c := collectives.New(env.Real(), ep, 1, dev, s)
	defer func() {
		c.Close()
		s.Close()
	}()
	memory := func() kernels.Buffer { // byte i is i
		b := newBuffer(n * part)
		for i := range b.Host() {
			b.Host()[i] = byte(i)
		}
		return b
	}
	lengths := func() []int {
		all := make([]int, n)
		for i := range all {
			all[i] = part
		}
		return all
	}
	check := func(what string, places []byte) {
		t.Helper()
		for peer, at := range places {
			if peer != rank && int(at) != peer*part {
				t.Errorf("%s rank %d begins at byte %d, want %d", what, peer, at, peer*part)
			}
		}
	}
	ep.inBytes, ep.sentBytes = lengths(), lengths()
	if err := c.AllToAllV(memory(), ep.inBytes, memory(), ep.sentBytes).Wait(); err != nil {
		t.Fatal(err)
	}
	check("AllToAllV: the part from", ep.received)
	check("AllToAllV: the part for", ep.sent)

	ep.inBytes, ep.sentBytes = lengths(), nil
	if err := c.AllGatherV(memory(), ep.inBytes, newBuffer(part)).Wait(); err != nil {
		t.Fatal(err)
	}
	check("AllGatherV: the part of", ep.received)
}
