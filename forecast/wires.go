package forecast

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/transport"
)

// Messages of a measurement: exchanges of one short message with each of the others, exchanges of several, and of a long one.
const (
	severalMessages  = 16
	shortBytes       = 256
	longBytes        = 4 << 20
	shortRounds      = 32 // exchanges of a time
	wireRounds       = 8  // times of each kind, of which the median counts
	mostEndpoints    = 16
	tagOfMeasurement = 1
	workBetween      = 300 * time.Microsecond // of a rank without a core of its own, before each exchange
	joinTimeout      = 10 * time.Second
	quietHeartbeat   = 2 * time.Second
)

// measureWires measures the cost of messages between processes of one machine, and of two: over TCP, without the
// time of the network, which link has. As many processes as run here send and receive at a time. far selects whether connections between
// machines are sealed.
func measureWires(e env.Env, h *plan.Host, here int, link *transport.EmulatedLink, far transport.Secure) (err error) {
	if h.Processes*h.Machines < 2 {
		return nil
	}
	n := min(max(2, here), mostEndpoints)
	if h.Processes > 1 {
		if h.Here, err = measureWire(e, n, true, transport.SecureOff); err != nil {
			return err
		}
	}
	if h.Machines > 1 {
		if h.Far, err = measureWire(e, n, false, far); err != nil {
			return err
		}
	}
	if link != nil {
		h.Far.Latency, h.Far.BytesPerS = link.Latency.Seconds(), link.BytesPerS
	}
	return nil
}

// measureWire measures messages between as many endpoints as there are processes on a machine. All send and receive at the same time.
func measureWire(e env.Env, n int, shared bool, secure transport.Secure) (w plan.Wire, err error) {
	eps, err := joinMany(e, n, shared, secure)
	if err != nil {
		return w, fmt.Errorf("forecast: measure messages over the loopback interface: %w", err)
	}
	defer func() {
		for _, ep := range eps {
			_ = ep.Close()
		}
	}()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * n)) // the threads of as many processes
	m := &messages{e: e, eps: eps}
	one, several := m.exchange(shortRounds, 1, shortBytes), m.exchange(shortRounds, severalMessages, shortBytes)
	long := m.exchange(1, 1, longBytes/(n-1))
	peers := float64(n - 1)
	w.PerMessage = max(0, several-one) / (peers * (severalMessages - 1))
	w.PerExchange = max(0, one-peers*w.PerMessage)
	w.PerByte = max(0, long-one) / float64(longBytes/(n-1)*(n-1))
	return w, m.err
}

// messages measures exchanges.
type messages struct {
	e   env.Env
	eps []transport.Endpoint
	err error
}

// exchange returns the seconds of a core that a rank needs for an exchange of some messages with each of the others, waiting included.
// Ranks that share cores work before each exchange, as in a step: so they arrive at different times, sleep, and are woken.
func (m *messages) exchange(rounds, each, bytes int) float64 {
	n := len(m.eps)
	memory := make([][]byte, n) // for what is received, and then one message to send
	for i := range memory {
		memory[i] = make([]byte, bytes*(each*n+1))
	}
	var all []float64
	work := time.Duration(0)
	if n > runtime.NumCPU() && usedTime(true) > 0 {
		work = workBetween
	}
	for range wireRounds {
		began, used := m.e.Now(), usedTime(true)
		var wait sync.WaitGroup
		errs := make([]error, n)
		for i, ep := range m.eps {
			wait.Go(func() { errs[i] = swap(ep, i, n, rounds, each, memory[i], work) })
		}
		wait.Wait()
		if m.err = cmp.Or(append(errs, m.err)...); m.err != nil {
			return 0
		}
		took := m.e.Now() - began
		if cpu := (usedTime(true) - used) / time.Duration(n); work > 0 && cpu > 0 {
			took = max(0, cpu-time.Duration(rounds)*work)
		}
		all = append(all, took.Seconds()/float64(rounds))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// spin uses a core for some time.
func spin(work time.Duration) {
	runtime.LockOSThread() // usedTime is that of a thread
	defer runtime.UnlockOSThread()
	for began, used := time.Now(), usedTime(false); usedTime(false)-used < work && time.Since(began) < 1000*work; {
	}
}

// swap sends messages to all others, and receives as many, after some work.
func swap(ep transport.Endpoint, self, n, rounds, each int, memory []byte, work time.Duration) (err error) {
	bytes := len(memory) / (each*n + 1)
	in, out := memory[:bytes*each*n], memory[bytes*each*n:]
	var requests []transport.Request
	for range rounds {
		if work > 0 {
			spin(work)
		}
		requests = requests[:0]
		for k := range n {
			for m := 0; k != self && m < each; m++ {
				at := (k*each + m) * bytes
				requests = append(requests, ep.Recv(k, tagOfMeasurement, in[at:at+bytes]))
			}
		}
		for k := 1; k < n; k++ { // not all to the same one first
			for range each {
				requests = append(requests, ep.Send((self+k)%n, tagOfMeasurement, out))
			}
		}
		for _, r := range requests {
			if failed := r.Wait(); failed != nil {
				err = failed
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// joinMany connects endpoints over the loopback interface, as if each was in a process of its own.
func joinMany(e env.Env, n int, shared bool, secure transport.Secure) ([]transport.Endpoint, error) {
	eps, errs := make([]transport.Endpoint, n), make([]error, n)
	processes := make([]transport.Process, n)
	listeners := make([]net.Listener, n)
	var err error
	for i := range processes {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		defer listeners[i].Close()
		processes[i] = transport.Process{Ranks: []int{i}, Addr: listeners[i].Addr().String(), Host: "here"}
	}
	var wait sync.WaitGroup
	for i := range eps {
		wait.Go(func() {
			joined, err := transport.Join(transport.NetOptions{Env: e, Generation: 1, Secret: []byte("forecast"), Processes: processes, Self: i,
				Listener: listeners[i], Heartbeat: quietHeartbeat, Timeout: joinTimeout, SharedMemory: shared, Secure: secure})
			if errs[i] = err; err == nil {
				eps[i] = joined[0]
			}
		})
	}
	wait.Wait()
	if err := cmp.Or(errs...); err != nil {
		for _, ep := range eps {
			if ep != nil {
				_ = ep.Close()
			}
		}
		return nil, err
	}
	return eps, nil
}
