package transport_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/transport"
)

// silentPair is two ranks, the second of which sends no heartbeats. conn is its
// connection.
func silentPair(t *testing.T, change func(*transport.NetOptions)) (eps []transport.Endpoint, conn net.Conn) {
	t.Helper()
	eps = joinAll(t, 2, 1, func(o *transport.NetOptions) {
		o.Heartbeat = 10 * time.Millisecond
		if change != nil {
			change(o)
		}
		if o.Self == 1 {
			o.Heartbeat, o.Silence = time.Hour, 0
			o.Tune(func(c net.Conn) { conn = c })
		}
	})
	t.Cleanup(func() {
		conn.Close() // otherwise each waits for the other's end of the connection
		for _, ep := range eps {
			_ = ep.Close()
		}
	})
	return eps, conn
}

// waitLost waits for a request to end with the loss of rank 1.
func waitLost(t *testing.T, r transport.Request) (after time.Duration, err error) {
	t.Helper()
	began := time.Now()
	err = r.Wait()
	var lost *transport.PeerLost
	if !errors.As(err, &lost) || lost.Rank != 1 {
		t.Fatalf("the request ended with %v, want the loss of rank 1", err)
	}
	return time.Since(began), err
}

// A silent process is lost after the limit. The error names the key that raises the
// limit.
func TestSilentProcessIsLost(t *testing.T) {
	eps, _ := silentPair(t, nil)
	if err := eps[1].Send(0, 2, []byte{1}).Wait(); err != nil { // before that it may be joining
		t.Fatal(err)
	}
	after, err := waitLost(t, eps[0].Recv(1, 1, make([]byte, 1)))
	if least := (heartbeat.Missed - 1) * 10 * time.Millisecond; after < least {
		t.Errorf("lost after %v of silence, want %v at least", after, least)
	}
	if !strings.Contains(err.Error(), "raise elastic.heartbeat") {
		t.Errorf("%q does not name the key", err)
	}
}

// With a longer limit, silence is no loss before that limit, but the end of the
// connection is a loss at once.
func TestLongerSilenceLimit(t *testing.T) {
	for name, change := range map[string]func(*transport.NetOptions){"tcp": nil, "shm": share} {
		t.Run(name, func(t *testing.T) {
			eps, conn := silentPair(t, func(o *transport.NetOptions) {
				o.Silence = heartbeat.Limit(o.Heartbeat, false)
				if change != nil {
					change(o)
				}
			})
			r := eps[0].Recv(1, 1, make([]byte, 1))
			time.Sleep(20 * 10 * time.Millisecond)
			if err := eps[1].Send(0, 1, []byte{7}).Wait(); err != nil {
				t.Fatal(err)
			}
			if err := r.Wait(); err != nil {
				t.Fatalf("after a silence of 20 heartbeats: %v", err)
			}
			conn.Close()
			if after, _ := waitLost(t, eps[0].Recv(1, 2, make([]byte, 1))); after > heartbeat.Patience/2 {
				t.Errorf("the loss of a process was noticed only after %v", after)
			}
		})
	}
}

// A process that waits for others to connect sends nothing yet. That is no loss, because
// on a busy host connecting takes long.
func TestSlowJoinIsNoLoss(t *testing.T) {
	eps := joinAll(t, 3, 1, func(o *transport.NetOptions) {
		o.Heartbeat = 10 * time.Millisecond
		if o.Self == 2 {
			o.Dial = func(addr string, limit time.Duration) (net.Conn, error) {
				if addr == o.Processes[1].Addr {
					time.Sleep(20 * o.Heartbeat)
				}
				return net.DialTimeout("tcp", addr, limit)
			}
		}
	})
	r := eps[0].Recv(2, 1, make([]byte, 1))
	if err := eps[2].Send(0, 1, []byte{7}).Wait(); err != nil {
		t.Error(err)
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
	for _, ep := range eps {
		_ = ep.Close()
	}
}
