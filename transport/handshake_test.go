package transport

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/seal"
)

// shake lets process 1 authenticate itself to process 0 over connections that the test
// makes. Each process has its own options for sealing.
func shake(tb testing.TB, secure [2]Secure, hosts [2]string, dials, accepts net.Conn) (d, a handshakeResult, dErr, aErr error) {
	tb.Helper()
	secret := []byte("swordfish")
	worlds := [2]*netWorld{}
	for self := range worlds {
		w, err := newNetWorld(&NetOptions{
			Env: env.Real(), Generation: 7, Processes: []Process{{Ranks: []int{0}, Host: hosts[0]}, {Ranks: []int{1}, Host: hosts[1]}}, Self: self,
			Secure: secure[self], Heartbeat: time.Second, Timeout: time.Second,
		})
		if err != nil {
			tb.Fatal(err)
		}
		worlds[self] = w
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		yes := func(int) bool { return true }
		if a, aErr = worlds[0].acceptHandshake(accepts, secret, yes, yes); aErr != nil {
			_ = accepts.Close()
		}
	}()
	mine := hello{version: protocolVersion, generation: 7, from: 1, to: 0, world: worldDigest(worlds[1].processes)}
	if worlds[1].mustSeal(0) {
		mine.suite = seal.Fastest()
	}
	if d, dErr = dialHandshake(dials, secret, mine); dErr != nil {
		_ = dials.Close()
	}
	<-done
	return d, a, dErr, aErr
}

// flipped is a connection that changes one received byte.
type flipped struct {
	net.Conn
	at int // number of bytes before it
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.at < n && f.at >= 0 {
		p[f.at] ^= 0x10
	}
	f.at -= n
	return n, err
}

func TestEveryChangedByteFailsASealedHandshake(t *testing.T) {
	const (
		dialled  = helloBytes + macBytes
		accepted = answerBytes + macBytes + seal.HeadBytes + 1 + seal.Overhead
	)
	for _, way := range []struct {
		name  string
		bytes int
	}{{"to the accepting process", dialled}, {"to the dialling process", accepted}} {
		for at := range way.bytes + 1 {
			near, far := net.Pipe()
			limit := time.Now().Add(500 * time.Millisecond) // a changed length would otherwise block
			_, _ = near.SetDeadline(limit), far.SetDeadline(limit)
			dials, accepts := net.Conn(near), net.Conn(far)
			if way.bytes == dialled {
				accepts = &flipped{far, at}
			} else {
				dials = &flipped{near, at}
			}
			_, _, dErr, aErr := shake(t, [2]Secure{SecureOn, SecureOn}, [2]string{"a", "b"}, dials, accepts)
			if untouched := at == way.bytes; (dErr == nil && aErr == nil) != untouched {
				t.Errorf("byte %d %s: the ends got %v and %v", at, way.name, dErr, aErr)
			}
			_, _ = near.Close(), far.Close()
		}
	}
}

func TestBothEndsMustSealOrNeither(t *testing.T) {
	for _, c := range []struct {
		secure [2]Secure
		hosts  [2]string
		sealed bool
		ok     bool
	}{
		{[2]Secure{SecureOff, SecureOff}, [2]string{"a", "b"}, false, true},
		{[2]Secure{SecureAuto, SecureAuto}, [2]string{"a", "b"}, true, true},
		{[2]Secure{SecureAuto, SecureAuto}, [2]string{"a", "a"}, false, true}, // as with SecureOff
		{[2]Secure{SecureOn, SecureOn}, [2]string{"a", "a"}, true, true},
		{[2]Secure{SecureOn, SecureAuto}, [2]string{"a", "b"}, true, true},
		{[2]Secure{SecureOn, SecureAuto}, [2]string{"a", "a"}, false, false},
		{[2]Secure{SecureOn, SecureOff}, [2]string{"a", "b"}, false, false},
		{[2]Secure{SecureOff, SecureOn}, [2]string{"a", "b"}, false, false},
	} {
		near, far := net.Pipe()
		d, a, dErr, aErr := shake(t, c.secure, c.hosts, near, far)
		if !c.ok {
			if !errors.Is(dErr, errSecure) || aErr == nil {
				t.Errorf("%+v: the ends got %v and %v", c, dErr, aErr)
			}
			continue
		}
		_, dSealed := d.conn.(*seal.Conn)
		_, aSealed := a.conn.(*seal.Conn)
		if dErr != nil || aErr != nil || dSealed != c.sealed || aSealed != c.sealed {
			t.Errorf("%+v: sealed %v and %v, %v, %v", c, dSealed, aSealed, dErr, aErr)
		}
		_, _ = near.Close(), far.Close()
	}
}

// TestReflectedHandshakeFails sends a dialling process its own messages.
func TestReflectedHandshakeFails(t *testing.T) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(far, far) }()
	_ = near.SetDeadline(time.Now().Add(5 * time.Second))
	_, err := dialHandshake(near, []byte("swordfish"), hello{version: protocolVersion, generation: 7, from: 1, suite: seal.Fastest()})
	if err == nil {
		t.Error("a process authenticated itself by its own messages")
	}
	_, _ = near.Close(), far.Close()
}
