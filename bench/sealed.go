package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

var sealedBench = Bench{
	Name:   "sealed",
	Doc:    "cost of encryption (job.secure): TCP messages on loopback, plain and sealed",
	Detail: "Two ranks exchange messages over both kinds of connection in turn. CPU time includes both ends.",
	Settings: []Setting{
		numbers("sizes", "64,16384,1048576", 1, 64<<20, "bytes of a message").orTiny("64,1048576"),
		number("pairs", "", 1, 1000, "pairs of turns, one plain and one sealed. Default: 4 times --repeats").orTiny("2"),
	},
	measure: runSealed,
}

const (
	sealedTurnBytes = 256 << 20 // of both directions together
	sealedTag       = 1
)

func runSealed(out io.Writer, o Options) (*Report, error) {
	sizes, pairs, turn := o.numbers("sizes"), o.number("pairs"), sealedTurnBytes
	if pairs == 0 {
		pairs = 4 * o.repeats()
	}
	if o.Tiny {
		turn = 2 << 20
	}
	var err error
	var worlds [2][]transport.Endpoint // plain, sealed
	for i, secure := range []transport.Secure{transport.SecureOff, transport.SecureOn} {
		if worlds[i], err = joinLoopback(2, secure); err != nil {
			return nil, err
		}
		defer closeEndpoints(worlds[i])
	}
	r := o.newReport("none")
	r.writeHeader(out)
	fmt.Fprintf(out, "\ntwo ranks of one process, each way at once, medians of %d pairs of turns; sealed / in clear, and its 95 %% "+
		"interval\n", pairs)
	t := table(out)
	fmt.Fprintln(t, "bytes\tGB/s in clear\tsealed\tratio\tinterval\tCPU s/GB in clear\tsealed\tratio\tinterval\t")
	for _, size := range sizes {
		rounds := min(max(1, turn/(2*size)), 20_000)
		found, err := sealedTurns(o, worlds, size, rounds, pairs)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(t, "%d\t%s%s\n", size, r.sealedRow(size, "GB/s", found[0]), r.sealedRow(size, "CPU s/GB", found[1]))
	}
	return r, t.Flush()
}

// joinLoopback connects ranks of this process over TCP.
func joinLoopback(ranks int, secure transport.Secure) ([]transport.Endpoint, error) {
	processes, listeners := make([]transport.Process, ranks), make([]net.Listener, ranks)
	for i := range processes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		listeners[i], processes[i] = l, transport.Process{Addr: l.Addr().String(), Ranks: []int{i}}
	}
	eps, errs := make([]transport.Endpoint, ranks), make([]error, ranks)
	together(ranks, func(i int) {
		var mine []transport.Endpoint
		mine, errs[i] = transport.Join(transport.NetOptions{Env: env.Real(), Generation: 1, Secret: []byte("a benchmark's"), Processes: processes,
			Self: i, Listener: listeners[i], Heartbeat: 2 * time.Second, Timeout: 20 * time.Second, Secure: secure})
		if errs[i] == nil {
			eps[i] = mine[0]
		}
	})
	return eps, errors.Join(errs...)
}

func closeEndpoints(eps []transport.Endpoint) {
	together(len(eps), func(i int) { _ = eps[i].Close() })
}

// sealedTurns measures pairs of turns, plain and sealed; the order alternates. It returns GB/s and
// CPU seconds per GB: [figure][plain, sealed][pair].
func sealedTurns(o Options, worlds [2][]transport.Endpoint, size, rounds, pairs int) (found [2][2][]float64, err error) {
	for pair := 0; pair == 0 || o.moreTurns(pair-1, pairs); pair++ {
		for i := range 2 {
			which := (pair + i) % 2
			began, busy := time.Now(), cpuTime()
			if err := exchangeMessages(worlds[which], size, rounds); err != nil {
				return found, err
			}
			gb := float64(2*size*rounds) / 1e9
			if pair == 0 {
				continue // buffers are allocated
			}
			found[0][which] = append(found[0][which], gb/time.Since(began).Seconds())
			found[1][which] = append(found[1][which], (cpuTime()-busy).Seconds()/gb)
		}
	}
	return found, nil
}

// exchangeMessages sends messages in both directions, one after the other.
func exchangeMessages(eps []transport.Endpoint, size, rounds int) error {
	errs := make([]error, len(eps))
	together(len(eps), func(i int) {
		in, out := make([]byte, size), make([]byte, size)
		for range rounds {
			r := eps[i].Recv(1-i, sealedTag, in)
			s := eps[i].Send(1-i, sealedTag, out)
			if errs[i] = errors.Join(r.Wait(), s.Wait()); errs[i] != nil {
				return
			}
		}
	})
	return errors.Join(errs...)
}

// sealedRow reports a figure, plain and sealed, and the ratio of neighbouring turns.
func (r *Report) sealedRow(size int, unit string, found [2][]float64) string {
	name := fmt.Sprintf("%d bytes ", size)
	clear, sealed := r.addFigure(name+unit+" in clear", unit, found[0]...), r.addFigure(name+unit+" sealed", unit, found[1]...)
	ratio := r.addRatio(name+unit+" sealed / in clear", found[1], found[0])
	return fmt.Sprintf("%.3f\t%.3f\t%.2f\t%s\t", clear.Median, sealed.Median, ratio.Median, ratio.betweenText(2))
}
