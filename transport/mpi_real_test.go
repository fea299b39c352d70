//go:build mpi

package transport_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/mpi"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

// The conformance suite over a real MPI. mpirun starts this test binary again. Each
// process connects to the test and runs on its endpoint the operations that the test
// requests.

const (
	mpiDriver    = "ECREC_TEST_MPI"    // the address of the test
	mpiLaunch    = "ECREC_TEST_MPIRUN" // the launcher, with its flags; "mpirun" if it is not set
	mpiProcesses = 4
)

func init() {
	if at := os.Getenv(mpiDriver); at != "" {
		if err := serveMPI(at); err != nil {
			fmt.Fprintln(os.Stderr, "MPI process:", err)
			mpi.Abort(1)
		}
		mpi.Finalize()
		os.Exit(0)
	}
}

// mpiCall requests an operation of a process, and mpiAnswer holds its result.
type mpiCall struct {
	ID    int
	What  string // join, send, recv, abort, close
	Peer  int    // of join: the number of ranks
	Tag   uint64
	Bytes int
	P     []byte
	Err   mpiError
}

type mpiAnswer struct {
	ID  int
	P   []byte
	Err mpiError
}

// mpiError is an encoded error.
type mpiError struct {
	Text   string // "": none
	Closed bool
	Lost   *struct {
		Rank int
		Text string
	}
	Length *transport.LengthError
}

func packError(err error) (m mpiError) {
	if err == nil {
		return m
	}
	m.Text, m.Closed = err.Error(), errors.Is(err, transport.ErrClosed)
	var lost *transport.PeerLost
	if errors.As(err, &lost) {
		m.Closed, m.Lost = false, &struct {
			Rank int
			Text string
		}{lost.Rank, lost.Cause.Error()}
	}
	errors.As(err, &m.Length)
	return m
}

// causes holds the errors that the suite compares by identity.
var causes sync.Map

func (m mpiError) unpack() error {
	switch {
	case m.Text == "":
		return nil
	case m.Length != nil:
		return m.Length
	case m.Lost != nil:
		return &transport.PeerLost{Rank: m.Lost.Rank, Cause: errors.New(m.Lost.Text)}
	case m.Closed:
		return transport.ErrClosed
	}
	if err, ok := causes.Load(m.Text); ok {
		return err.(error)
	}
	return errors.New(m.Text)
}

// partComm is the first processes of a communicator.
type partComm struct {
	mpi.Comm
	size int
}

func (c partComm) Size() int { return c.size }

// serveMPI is the main function of a process that mpirun started.
func serveMPI(at string) error {
	comm, err := mpi.Init()
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	var mu sync.Mutex
	answer := func(a mpiAnswer) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a)
	}
	answer(mpiAnswer{ID: comm.Rank()})
	var ep transport.Endpoint
	for {
		var c mpiCall
		if in.Decode(&c) != nil {
			return nil
		}
		var r transport.Request
		switch c.What {
		case "join":
			eps, err := transport.JoinMPI(mpiOptions(partComm{comm, c.Peer}, c.Peer, 1))
			if err == nil {
				ep = eps[0]
			}
			answer(mpiAnswer{ID: c.ID, Err: packError(err)})
			continue
		case "abort":
			ep.Abort(c.Err.unpack())
			answer(mpiAnswer{ID: c.ID})
			continue
		case "close":
			closing := ep
			go func() { answer(mpiAnswer{ID: c.ID, Err: packError(closing.Close())}) }()
			continue
		case "send":
			r = ep.Send(c.Peer, transport.Tag(c.Tag), c.P)
		case "recv":
			c.P = make([]byte, c.Bytes)
			r = ep.Recv(c.Peer, transport.Tag(c.Tag), c.P)
		}
		go func() {
			err := r.Wait()
			if c.What == "send" {
				c.P = nil
			}
			answer(mpiAnswer{c.ID, c.P, packError(err)})
		}()
	}
}

// remoteProcess is the test's side of a process that mpirun started.
type remoteProcess struct {
	mu      sync.Mutex
	out     *gob.Encoder
	next    int
	answers map[int]chan mpiAnswer
}

func (p *remoteProcess) call(c mpiCall) chan mpiAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	c.ID = p.next
	done := make(chan mpiAnswer, 1)
	p.answers[c.ID] = done
	if err := p.out.Encode(c); err != nil {
		done <- mpiAnswer{Err: packError(err)}
	}
	return done
}

func (p *remoteProcess) receiveAnswers(in *gob.Decoder) {
	for {
		var a mpiAnswer
		err := in.Decode(&a)
		p.mu.Lock()
		if err != nil {
			for _, done := range p.answers {
				done <- mpiAnswer{Err: packError(err)}
			}
			p.mu.Unlock()
			return
		}
		p.answers[a.ID] <- a
		delete(p.answers, a.ID)
		p.mu.Unlock()
	}
}

// remoteEndpoint is an endpoint in such a process.
type remoteEndpoint struct {
	*remoteProcess
	rank, size int
}

func (e *remoteEndpoint) Rank() int          { return e.rank }
func (e *remoteEndpoint) Size() int          { return e.size }
func (e *remoteEndpoint) Generation() uint64 { return 0 }

func (e *remoteEndpoint) Send(to int, tag transport.Tag, p []byte) transport.Request {
	return &remoteRequest{e.call(mpiCall{What: "send", Peer: to, Tag: uint64(tag), P: p}), nil}
}

func (e *remoteEndpoint) Recv(from int, tag transport.Tag, p []byte) transport.Request {
	return &remoteRequest{e.call(mpiCall{What: "recv", Peer: from, Tag: uint64(tag), Bytes: len(p)}), p}
}

func (e *remoteEndpoint) Abort(cause error) {
	causes.LoadOrStore(cause.Error(), cause)
	<-e.call(mpiCall{What: "abort", Err: packError(cause)})
}

func (e *remoteEndpoint) Close() error {
	a := <-e.call(mpiCall{What: "close"})
	return a.Err.unpack()
}

type remoteRequest struct {
	done chan mpiAnswer
	p    []byte
}

func (r *remoteRequest) Wait() error {
	a := <-r.done
	err := a.Err.unpack()
	if err == nil {
		copy(r.p, a.P)
	}
	return err
}

func TestRealMPI(t *testing.T) {
	launch := strings.Fields(os.Getenv(mpiLaunch))
	if len(launch) == 0 {
		launch = []string{"mpirun", "--oversubscribe"}
	}
	if _, err := exec.LookPath(launch[0]); err != nil {
		t.Skip(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(launch[0], append(launch[1:], "-np", fmt.Sprint(mpiProcesses), os.Args[0])...)
	cmd.Env = append(os.Environ(), mpiDriver+"="+l.Addr().String(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	processes := make([]*remoteProcess, mpiProcesses)
	var conns []net.Conn
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	for range processes {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		p := &remoteProcess{out: gob.NewEncoder(conn), answers: map[int]chan mpiAnswer{}}
		in := gob.NewDecoder(conn)
		var a mpiAnswer
		if err := in.Decode(&a); err != nil {
			t.Fatal(err)
		}
		processes[a.ID] = p
		go p.receiveAnswers(in)
	}
	transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
		eps, joined := make([]transport.Endpoint, n), make([]chan mpiAnswer, n)
		for r := range n {
			joined[r] = processes[r].call(mpiCall{What: "join", Peer: n})
			eps[r] = &remoteEndpoint{processes[r], r, n}
		}
		for r := range n {
			if a := <-joined[r]; a.Err.Text != "" {
				t.Fatalf("rank %d: %s", r, a.Err.Text)
			}
		}
		return eps
	})
	for _, c := range conns {
		_ = c.Close()
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("mpirun does not end")
	}
}
