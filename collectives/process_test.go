package collectives_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// Tests with real processes start this test binary again as peers, one for each other
// rank. A peer prints the address on which it listens and reads the addresses of all. It
// then runs the operations that it reads from its standard input.

const peerVariable = "ECREC_TEST_PEER"

func init() {
	if os.Getenv(peerVariable) != "" {
		if err := peerMain(); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// peerWorld is the configuration sent to a peer.
type peerWorld struct {
	Self         int
	Processes    []transport.Process
	SharedMemory bool
}

func (w peerWorld) join(l net.Listener) (transport.Endpoint, error) {
	eps, err := transport.Join(transport.NetOptions{
		Env: env.Real(), Generation: 7, Secret: []byte("swordfish"), Processes: w.Processes, Self: w.Self, Listener: l,
		Heartbeat: peerHeartbeat, Timeout: 20 * time.Second, SharedMemory: w.SharedMemory,
	})
	if err != nil {
		return nil, err
	}
	return eps[0], nil
}

const peerHeartbeat = 200 * time.Millisecond

func peerMain() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var w peerWorld
	if err := in.Decode(&w); err != nil {
		return err
	}
	ep, err := w.join(listener)
	if err != nil {
		return err
	}
	r, err := newRunner(ep)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		var o peerOperation
		if err := in.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		err := r.run(o, o.Times, nil)
		fmt.Printf("%d %v\n", time.Now().UnixNano(), err)
	}
}

type peerOperation struct {
	Name  string
	Bytes int
	Times int
	// Ordinary memory cannot be read by other processes in place.
	Ordinary bool
}

// runner is a rank with a communicator and buffers.
type runner struct {
	ep       transport.Endpoint
	dev      kernels.Device
	comm     *collectives.Comm
	src, dst kernels.Buffer
	counts   []int
}

func newRunner(ep transport.Endpoint) (*runner, error) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return nil, err
	}
	return &runner{ep: ep, dev: dev, comm: collectives.New(env.Real(), ep, 5, dev, dev.Stream(1)), counts: make([]int, ep.Size())}, nil
}

func (r *runner) close() {
	_ = r.ep.Close()
	r.comm.Close()
}

// run runs an operation a number of times, and calls begin before each.
func (r *runner) run(o peerOperation, times int, begin func(i int)) error {
	n := r.ep.Size()
	if r.src.Bytes() != o.Bytes || o.Name == "Sum" {
		for _, b := range []*kernels.Buffer{&r.src, &r.dst} {
			if err := r.alloc(b, o); err != nil {
				return err
			}
		}
	}
	for i := range r.counts {
		r.counts[i] = o.Bytes / n
	}
	if err := r.comm.Barrier().Wait(); err != nil { // a process that is lost while it joins has a longer limit
		return err
	}
	for i := range times {
		if begin != nil {
			begin(i)
		}
		var h *collectives.Handle
		switch o.Name {
		case "AllReduce":
			h = r.comm.AllReduce(r.dst)
		case "Sum":
			if err := r.sum(); err != nil {
				return err
			}
			continue
		case "AllToAllV":
			h = r.comm.AllToAllV(r.dst, r.counts, r.src, r.counts)
		case "AllGatherV":
			h = r.comm.AllGatherV(r.dst, r.counts, r.src.Slice(0, r.counts[0]))
		case "Broadcast":
			h = r.comm.Broadcast(r.dst, 0)
		case "Barrier":
			h = r.comm.Barrier()
		}
		if err := h.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) alloc(b *kernels.Buffer, o peerOperation) error {
	if b.Bytes() > 0 {
		r.dev.Free(*b)
	}
	use := kernels.Shared
	if o.Ordinary {
		use = kernels.Working
	}
	var err error
	*b, err = r.dev.Alloc(o.Bytes, use)
	return err
}

// sum runs an AllReduce and checks its result.
func (r *runner) sum() error {
	floats := kernels.HostView[float32](r.dst)
	addend := func(rank, i int) float32 { return float32(rank+1) / float32(i%13+3) }
	for i := range floats {
		floats[i] = addend(r.ep.Rank(), i)
	}
	if err := r.comm.AllReduce(r.dst).Wait(); err != nil {
		return err
	}
	for i, got := range floats {
		want := float32(0)
		for rank := range r.ep.Size() {
			want += addend(rank, i)
		}
		if got != want {
			return fmt.Errorf("rank %d: element %d is %g, want %g", r.ep.Rank(), i, got, want)
		}
	}
	return nil
}

// TestAllReduceAcrossProcesses: in place, sent, and with one buffer that cannot be read
// in place.
func TestAllReduceAcrossProcesses(t *testing.T) {
	times := 20
	if testing.Short() {
		times = 5
	}
	for _, shared := range []bool{true, false} {
		peers, last := startPeers(t, 3, shared, 1)
		for _, ordinary := range []int{0, 1, 3} {
			for _, floats := range []int{5000, 5120, 300_000} {
				o := peerOperation{Name: "Sum", Bytes: 4 * floats, Times: times}
				for i, p := range peers {
					o.Ordinary = i < ordinary
					if err := p.in.Encode(o); err != nil {
						t.Fatal(err)
					}
				}
				o.Ordinary = ordinary == 3
				if err := last.run(o, o.Times, nil); err != nil {
					t.Fatal(err)
				}
				for i, p := range peers {
					if !p.out.Scan() || !strings.HasSuffix(p.out.Text(), "<nil>") {
						t.Fatalf("peer %d: %s", i, p.out.Text())
					}
				}
				last.dst, last.src = kernels.Buffer{}, kernels.Buffer{}
			}
		}
	}
}

// peer is a process started by a test.
type peer struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *bufio.Scanner
	end io.Closer
}

// startPeers starts n-1 peers and connects to them as the last rank.
func startPeers(tb testing.TB, n int, shared bool, procs int) ([]*peer, *runner) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	w := peerWorld{SharedMemory: shared}
	var peers []*peer
	for i := range n - 1 {
		p := startPeer(tb, procs)
		if !p.out.Scan() {
			tb.Fatalf("peer %d does not print its address", i)
		}
		peers = append(peers, p)
		w.Processes = append(w.Processes, transport.Process{Ranks: []int{i}, Addr: p.out.Text(), Host: "here"})
	}
	w.Processes = append(w.Processes, transport.Process{Ranks: []int{n - 1}, Addr: listener.Addr().String(), Host: "here"})
	for i, p := range peers {
		w.Self = i
		if err := p.in.Encode(w); err != nil {
			tb.Fatal(err)
		}
	}
	w.Self = n - 1
	ep, err := w.join(listener)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := newRunner(ep)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.close)
	return peers, r
}

func startPeer(tb testing.TB, procs int) *peer {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"=1", fmt.Sprintf("GOMAXPROCS=%d", procs))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &peer{cmd: cmd, in: json.NewEncoder(in), out: bufio.NewScanner(out), end: in}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// BenchmarkProcesses times operations among real processes. GOMAXPROCS of all of them is
// the value of -cpu.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, shared := range []bool{true, false} {
			b.Run(fmt.Sprintf("processes=%d/shared=%v", n, shared), func(b *testing.B) {
				peers, r := startPeers(b, n, shared, runtime.GOMAXPROCS(0))
				for _, o := range []peerOperation{
					{Name: "AllToAllV", Bytes: 64}, {Name: "AllToAllV", Bytes: 64 << 10}, {Name: "AllToAllV", Bytes: 1 << 20},
					{Name: "AllToAllV", Bytes: 16 << 20},
					{Name: "AllReduce", Bytes: 4 << 10}, {Name: "AllReduce", Bytes: 64 << 10}, {Name: "AllReduce", Bytes: 1 << 20},
					{Name: "AllReduce", Bytes: 16 << 20},
				} {
					b.Run(fmt.Sprintf("%s/bytes=%d", o.Name, o.Bytes), func(b *testing.B) {
						const warmup = 3
						o.Times = warmup + b.N + 1
						for _, p := range peers {
							if err := p.in.Encode(o); err != nil {
								b.Fatal(err)
							}
						}
						starts := make([]time.Time, 0, o.Times)
						if err := r.run(o, o.Times, func(int) { starts = append(starts, time.Now()) }); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						took := make([]time.Duration, b.N)
						for i := range took {
							took[i] = starts[warmup+i+1].Sub(starts[warmup+i])
						}
						slices.Sort(took)
						b.ReportMetric(float64(took[b.N/2].Nanoseconds())/1000, "p50-us")
						b.ReportMetric(0, "ns/op")
						for _, p := range peers {
							p.out.Scan()
						}
					})
				}
			})
		}
	}
}
