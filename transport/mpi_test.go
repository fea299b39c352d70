package transport_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

// fakeMPI is an MPI among processes of this test. Short messages are sent at once, longer
// ones when they are received. Completions are reported late and in any order.
type fakeMPI struct {
	mu     sync.Mutex
	rand   *rand.Rand
	late   float64         // share of the completions that Poll does not report yet
	sent   [][]fakeMessage // by receiver, in order
	wanted [][]fakeReceive
	done   [][]mpi.Done
	slow   time.Duration     // after which Poll reports receives of more than a MiB
	first  map[int]time.Time // by slot: when such a receive was done
}

type fakeMessage struct {
	from, tag int
	p         []byte
	slot      int // of the sender; -1: it is done
}

type fakeReceive struct {
	from, tag, slot int
	p               []byte
}

const fakeEager = 4096

func newFakeMPI(n int, seed uint64, late float64) *fakeMPI {
	return &fakeMPI{rand: rand.New(rand.NewPCG(seed, 0)), late: late, first: map[int]time.Time{},
		sent: make([][]fakeMessage, n), wanted: make([][]fakeReceive, n), done: make([][]mpi.Done, n)}
}

type fakeComm struct {
	net  *fakeMPI
	rank int
}

func (c fakeComm) Rank() int { return c.rank }
func (c fakeComm) Size() int { return len(c.net.sent) }

func (c fakeComm) Send(slot int, p []byte, to, tag int) error {
	f := c.net
	f.mu.Lock()
	defer f.mu.Unlock()
	m := fakeMessage{c.rank, tag, p, slot}
	if len(p) <= fakeEager {
		m.p, m.slot = append([]byte(nil), p...), -1
		f.done[c.rank] = append(f.done[c.rank], mpi.Done{Slot: slot})
	}
	f.sent[to] = append(f.sent[to], m)
	f.match(to)
	return nil
}

func (c fakeComm) Recv(slot int, p []byte, from, tag int) error {
	f := c.net
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted[c.rank] = append(f.wanted[c.rank], fakeReceive{from, tag, slot, p})
	f.match(c.rank)
	return nil
}

func (c fakeComm) Cancel(slot int) error {
	f := c.net
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.wanted[c.rank] {
		if r.slot == slot {
			f.wanted[c.rank] = append(f.wanted[c.rank][:i:i], f.wanted[c.rank][i+1:]...)
			f.done[c.rank] = append(f.done[c.rank], mpi.Done{Slot: slot, Cancelled: true})
			break
		}
	}
	return nil
}

func (c fakeComm) Poll(done []mpi.Done) ([]mpi.Done, error) {
	f := c.net
	f.mu.Lock()
	defer f.mu.Unlock()
	mine := f.done[c.rank]
	f.rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	var later []mpi.Done
	for _, d := range mine {
		long := f.slow > 0 && d.Bytes > 1<<20
		if _, seen := f.first[d.Slot]; long && !seen {
			f.first[d.Slot] = time.Now()
		}
		if f.rand.Float64() < f.late || long && time.Since(f.first[d.Slot]) < f.slow {
			later = append(later, d)
		} else {
			done = append(done, d)
		}
	}
	f.done[c.rank] = later
	return done, nil
}

// match delivers messages to a process: the oldest first, to the receive that was posted
// first.
func (f *fakeMPI) match(to int) {
	for i := 0; i < len(f.sent[to]); i++ {
		m := f.sent[to][i]
		for j, r := range f.wanted[to] {
			if r.tag != m.tag || r.from != mpi.AnyProcess && r.from != m.from {
				continue
			}
			n := copy(r.p, m.p)
			f.done[to] = append(f.done[to], mpi.Done{Slot: r.slot, From: m.from, Bytes: n})
			if m.slot >= 0 {
				f.done[m.from] = append(f.done[m.from], mpi.Done{Slot: m.slot})
			}
			f.wanted[to] = append(f.wanted[to][:j:j], f.wanted[to][j+1:]...)
			f.sent[to] = append(f.sent[to][:i:i], f.sent[to][i+1:]...)
			i--
			break
		}
	}
}

func mpiOptions(comm mpi.Comm, n, each int) transport.MPIOptions {
	ranks := make([][]int, comm.Size())
	for r := range n {
		ranks[r/each] = append(ranks[r/each], r)
	}
	return transport.MPIOptions{Env: env.Real(), Comm: comm, Ranks: ranks, Host: "here", Same: "config",
		Heartbeat: 200 * time.Millisecond, Timeout: 10 * time.Second}
}

// joinMPI connects ranks over a fake MPI.
func joinMPI(tb testing.TB, n, each int, net *fakeMPI) []transport.Endpoint {
	tb.Helper()
	eps := make([]transport.Endpoint, n)
	var wg sync.WaitGroup
	for i := range net.sent {
		wg.Go(func() {
			mine, err := transport.JoinMPI(mpiOptions(fakeComm{net, i}, n, each))
			if err != nil {
				tb.Error(err)
			}
			for k, ep := range mine {
				eps[i*each+k] = ep
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return eps
}

func TestMPI(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, late := range map[string]float64{"prompt": 0, "late": 0.5} {
		t.Run(name, func(t *testing.T) {
			for _, each := range []int{1, 2} {
				if testing.Short() && (each == 2) != (late > 0) {
					continue // each once in short mode
				}
				transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
					return joinMPI(t, n, each, newFakeMPI((n+each-1)/each, seed, late))
				})
			}
		})
	}
}

// A sender may announce a piece of a message before the receiver has seen the end of the one before.
func TestMPIPieceAnnouncedEarly(t *testing.T) {
	net := newFakeMPI(2, 1, 0)
	net.slow = 100 * time.Millisecond
	eps := joinMPI(t, 2, 1, net)
	sent, got := make([]byte, 64<<20+3), make([]byte, 64<<20+3)
	for i := range sent {
		sent[i] = byte(i>>16 + i)
	}
	receive := eps[1].Recv(0, 7, got)
	send := eps[0].Send(1, 7, sent)
	if err := errors.Join(receive.Wait(), send.Wait()); err != nil || !bytes.Equal(sent, got) {
		t.Errorf("%v, or other bytes", err)
	}
	for _, ep := range eps {
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMPIProcessesMustAgree(t *testing.T) {
	net := newFakeMPI(2, 1, 0)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wg.Go(func() {
			o := mpiOptions(fakeComm{net, i}, 2, 1)
			if i == 1 {
				o.Same = "another config"
			}
			_, errs[i] = transport.JoinMPI(o)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "another config or command line") {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

// TestMPIWithoutAllProcesses: JoinMPI waits for a missing process no longer than the
// timeout.
func TestMPIWithoutAllProcesses(t *testing.T) {
	o := mpiOptions(fakeComm{newFakeMPI(2, 1, 0), 0}, 2, 1)
	o.Timeout = 50 * time.Millisecond
	if _, err := transport.JoinMPI(o); err == nil || !strings.Contains(err.Error(), "not all of 2 processes") {
		t.Error(err)
	}
}

// muteComm is an MPI whose process becomes silent, as a lost process does if MPI does not
// notice the loss.
type muteComm struct {
	fakeComm
	mute chan struct{}
}

func (c muteComm) silent() bool {
	select {
	case <-c.mute:
		return true
	default:
		return false
	}
}

func (c muteComm) Send(slot int, p []byte, to, tag int) error {
	if c.silent() {
		return nil
	}
	return c.fakeComm.Send(slot, p, to, tag)
}

func (c muteComm) Recv(slot int, p []byte, from, tag int) error {
	if c.silent() {
		return nil
	}
	return c.fakeComm.Recv(slot, p, from, tag)
}

func (c muteComm) Poll(done []mpi.Done) ([]mpi.Done, error) {
	if c.silent() {
		return done, nil
	}
	return c.fakeComm.Poll(done)
}

// TestMPISilentProcess: requests on a silent process end after 5 heartbeats, including
// those that MPI never ends.
func TestMPISilentProcess(t *testing.T) {
	net, mute := newFakeMPI(2, 1, 0), make(chan struct{})
	var wg sync.WaitGroup
	var eps [2]transport.Endpoint
	for i := range eps {
		wg.Go(func() {
			var c mpi.Comm = fakeComm{net, i}
			if i == 1 {
				c = muteComm{fakeComm{net, i}, mute}
			}
			mine, err := transport.JoinMPI(mpiOptions(c, 2, 1))
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
	const long = 1 << 20
	theirs := eps[1].Recv(0, 2, make([]byte, long))
	close(mute)
	requests := []transport.Request{eps[0].Send(1, 1, make([]byte, long)), eps[0].Send(1, 2, make([]byte, long)),
		eps[0].Recv(1, 1, make([]byte, 8))}
	begin := time.Now()
	for i, r := range requests {
		if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "rank 1 of generation") {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("a silent process is lost after %v", took)
	}
	for _, ep := range eps {
		_ = ep.Close()
	}
	_ = theirs.Wait()
}

// brokenComm is an MPI that fails.
type brokenComm struct {
	fakeComm
	broken chan struct{}
	poll   error // the error of Poll; nil: Poll reports an error of a packet
}

func (c brokenComm) Poll(done []mpi.Done) ([]mpi.Done, error) {
	done, err := c.fakeComm.Poll(done)
	select {
	case <-c.broken:
		if c.poll != nil {
			return done, c.poll
		}
		done = append(done, mpi.Done{Slot: c.packetSlot(), From: -1, Err: errors.New("MPI_ERR_TRUNCATE")})
	default:
	}
	return done, err
}

// packetSlot returns a slot of a packet receive.
func (c brokenComm) packetSlot() int {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for _, r := range c.net.wanted[c.rank] {
		if r.from == mpi.AnyProcess {
			return r.slot
		}
	}
	return 0
}

// TestBrokenMPI: if MPI fails, all outstanding requests end with its error.
func TestBrokenMPI(t *testing.T) {
	for _, poll := range []error{errors.New("MPI_ERR_TRUNCATE"), nil} {
		net, broken := newFakeMPI(2, 1, 0), make(chan struct{})
		var wg sync.WaitGroup
		var eps [2]transport.Endpoint
		for i := range eps {
			wg.Go(func() {
				var c mpi.Comm = fakeComm{net, i}
				if i == 0 {
					c = brokenComm{fakeComm{net, i}, broken, poll}
				}
				mine, err := transport.JoinMPI(mpiOptions(c, 2, 1))
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
		const long = 1 << 20
		requests := []transport.Request{eps[0].Send(1, 1, make([]byte, long)), eps[0].Recv(1, 1, make([]byte, 8))}
		close(broken)
		for i, r := range requests {
			if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "MPI_ERR_TRUNCATE") {
				t.Errorf("request %d: %v", i, err)
			}
		}
		for _, ep := range eps {
			_ = ep.Close()
		}
	}
}
