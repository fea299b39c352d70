package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/transport"
)

// joinEach connects processes of one rank each, and returns the error of each.
func joinEach(t *testing.T, n int, change func(self int, o *transport.NetOptions)) []error {
	t.Helper()
	processes, listeners := deal(t, n, 1)
	errs := make([]error, n)
	eps := make([][]transport.Endpoint, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			o := options(processes, i, listeners[i])
			o.Timeout = 600 * time.Millisecond
			change(i, &o)
			eps[i], errs[i] = transport.Join(o)
		})
	}
	wg.Wait()
	for _, e := range eps {
		closeAll(t, e)
	}
	return errs
}

func TestJoinRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *transport.NetOptions)
		want   string // error of the changed process, which dials
	}{
		{"secret", func(o *transport.NetOptions) { o.Secret = []byte("guess") }, "has another secret than this job"},
		{"older generation", func(o *transport.NetOptions) { o.Generation = 41 }, "it is in generation 42, this process in 41"},
		{"newer generation", func(o *transport.NetOptions) { o.Generation = 43 }, "it is in generation 42, this process in 43"},
		{"another world", func(o *transport.NetOptions) {
			o.Processes = append([]transport.Process(nil), o.Processes...)
			o.Processes[0].Ranks, o.Processes[1].Ranks = []int{1}, []int{0}
		}, "another list of processes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			var stats transport.NetStats
			errs := joinEach(t, 2, func(self int, o *transport.NetOptions) {
				if self == 1 {
					c.change(o)
				} else {
					o.Stats = &stats
				}
			})
			var join *transport.JoinError
			if !errors.As(errs[1], &join) || join.Process != 0 || !strings.Contains(errs[1].Error(), c.want) {
				t.Errorf("the dialling process got %v, want a JoinError of process 0: %s", errs[1], c.want)
			}
			if !errors.As(errs[0], &join) || join.Process != 1 {
				t.Errorf("the accepting process got %v, want a JoinError of process 1", errs[0])
			}
			if stats.Unauthenticated.Load() == 0 {
				t.Error("no unauthenticated connection was counted")
			}
		})
	}
}

// TestJoinReportsTheLastReply lets the time run out after the peer has replied with a
// refusal, or has the peer close later connections, as a process that ends does.
func TestJoinReportsTheLastReply(t *testing.T) {
	for name, later := range map[string]func() (net.Conn, error){
		"time runs out": func() (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		},
		"the peer ends": func() (net.Conn, error) {
			mine, its := net.Pipe()
			go func() {
				_, _ = its.Read(make([]byte, 1<<10)) // the hello
				_ = its.Close()
			}()
			return mine, nil
		},
	} {
		t.Run(name, func(t *testing.T) { testLastReply(t, later) })
	}
}

func testLastReply(t *testing.T, later func() (net.Conn, error)) {
	errs := joinEach(t, 2, func(self int, o *transport.NetOptions) {
		if self == 0 {
			return
		}
		o.Generation++
		answered := false
		o.Dial = func(addr string, limit time.Duration) (net.Conn, error) {
			if answered {
				return later()
			}
			answered = true
			return net.DialTimeout("tcp", addr, limit)
		}
	})
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "it is in generation 42, this process in 43") {
		t.Errorf("the dialling process got %v", errs[1])
	}
}

func TestJoinNamesTheMissing(t *testing.T) {
	processes, listeners := deal(t, 2, 1)
	o := options(processes, 0, listeners[0])
	o.Timeout = 50 * time.Millisecond
	_, err := transport.Join(o)
	var join *transport.JoinError
	if !errors.As(err, &join) || join.Process != 1 || join.Addr != processes[1].Addr {
		t.Errorf("got %v, want a JoinError of process 1", err)
	}
	_ = listeners[0].Close()
	o = options(processes, 1, listeners[1])
	o.Timeout = 50 * time.Millisecond
	if _, err := transport.Join(o); !errors.As(err, &join) || join.Process != 0 {
		t.Errorf("got %v, want a JoinError of process 0", err)
	}
}

// TestStrangersDoNotDelayJoin opens foreign connections that send nothing, or garbage,
// before the peer connects.
func TestStrangersDoNotDelayJoin(t *testing.T) {
	processes, listeners := deal(t, 2, 1)
	var stats transport.NetStats
	errs := make(chan error, 2)
	var eps [2][]transport.Endpoint
	start := func(self int) {
		o := options(processes, self, listeners[self])
		o.Stats = &stats
		var err error
		eps[self], err = transport.Join(o)
		errs <- err
	}
	go start(0)
	for i := range 100 {
		c, err := net.Dial("tcp", processes[0].Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if i%2 == 0 {
			_, _ = c.Write(make([]byte, 500))
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.Copy(io.Discard, c)
		}
	}
	go start(1)
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if n := stats.Unauthenticated.Load(); n < 50 {
		t.Errorf("%d unauthenticated connections were counted", n)
	}
	closeAll(t, eps[0])
	closeAll(t, eps[1])
}

func TestJoinRefusesWrongWorlds(t *testing.T) {
	processes, listeners := deal(t, 2, 1)
	for name, change := range map[string]func(*transport.NetOptions){
		"a rank twice": func(o *transport.NetOptions) { o.Processes = []transport.Process{{Ranks: []int{0}}, {Ranks: []int{0}}} },
		"no rank":      func(o *transport.NetOptions) { o.Processes = []transport.Process{{Ranks: []int{0}}, {}}; o.Self = 1 },
		"self outside": func(o *transport.NetOptions) { o.Self = 2 },
		"no heartbeat": func(o *transport.NetOptions) { o.Heartbeat = 0 },
	} {
		o := options(processes, 0, listeners[0])
		change(&o)
		if _, err := transport.Join(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestGenerationsFollowEachOther joins one world after another on the same listeners, and
// uses each.
func TestGenerationsFollowEachOther(t *testing.T) {
	processes, listeners := deal(t, 3, 1)
	for generation := range uint64(5) {
		eps := make([]transport.Endpoint, 3)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				o := options(processes, i, listeners[i])
				o.Generation, o.SharedMemory = generation, i != 1
				mine, err := transport.Join(o)
				if err != nil {
					t.Error(err)
					return
				}
				eps[i] = mine[0]
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for from := range 3 {
			to := (from + 1) % 3
			got := make([]byte, 5)
			r, s := eps[to].Recv(from, 1, got), eps[from].Send(to, 1, []byte("hello"))
			if err := errors.Join(s.Wait(), r.Wait()); err != nil || string(got) != "hello" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		closeAll(t, eps)
	}
}

// lossyConn is a connection that fails when its last byte of the handshake has arrived, as one does whose time ran out.
type lossyConn struct{ net.Conn }

func (c lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if len(b) == 1 && err == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

// watchedListener calls closed when the first connection that it has accepted is closed.
type watchedListener struct {
	*net.TCPListener
	accepted int
	closed   func()
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if l.accepted++; err == nil && l.accepted == 1 {
		c = &watchedConn{Conn: c, closed: l.closed}
	}
	return c, err
}

type watchedConn struct {
	net.Conn
	closed func()
}

func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestJoinAfterALostHandshake: the time of a process that dials runs out while the other one makes a link of the connection. It dials again,
// and the new connection replaces that link.
func TestJoinAfterALostHandshake(t *testing.T) {
	processes, listeners := deal(t, 3, 1)
	replaced := make(chan bool)
	var once sync.Once
	var eps [3][]transport.Endpoint
	var errs [3]error
	var wg sync.WaitGroup
	for i := range 3 {
		o := options(processes, i, listeners[i])
		o.Timeout = 20 * time.Second
		switch i {
		case 0:
			o.Listener = &watchedListener{listeners[0].(*net.TCPListener), 0, func() { once.Do(func() { close(replaced) }) }}
		case 1:
			dialled := false
			o.Dial = func(addr string, limit time.Duration) (net.Conn, error) {
				c, err := net.DialTimeout("tcp", addr, limit)
				if !dialled && err == nil {
					dialled, c = true, lossyConn{c}
				}
				return c, err
			}
		case 2: // until it connects, the others wait
			o.Dial = func(addr string, limit time.Duration) (net.Conn, error) {
				<-replaced
				return net.DialTimeout("tcp", addr, limit)
			}
		}
		wg.Go(func() { eps[i], errs[i] = transport.Join(o) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	got := make([]byte, 3)
	r := eps[0][0].Recv(1, 7, got)
	if err := eps[1][0].Send(0, 7, []byte("abc")).Wait(); err != nil {
		t.Error(err)
	}
	if err := r.Wait(); err != nil || string(got) != "abc" {
		t.Errorf("received %q, %v", got, err)
	}
	closeAll(t, slices.Concat(eps[0], eps[1], eps[2]))
}
