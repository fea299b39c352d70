package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/transport"
)

type benchCmd struct {
	placeFlags
	Name    string   `arg:"" help:"The benchmark, or 'list'."`
	Args    []string `arg:"" optional:"" placeholder:"KEY=VALUE" help:"The benchmark's own settings."`
	Repeats int      `default:"5" help:"How often each figure is measured."`
	Link    string   `placeholder:"BANDWIDTH,LATENCY" help:"Give the ranks links, like 10Gb/s,50us (benchmarks with a setting link)."`
	Compute string   `placeholder:"DURATION" help:"Wait in place of forward and backward, like 30ms (benchmarks with a setting compute)."`
	// Transport, Device and Format are the settings transport, device and columns.
	Transport string `placeholder:"mem|shm|tcp|mpi" help:"What carries the messages (bench collectives); mpi: under mpirun, in a build for MPI."`
	Device    string `placeholder:"cpu|cuda" help:"What computes (bench kernels, bench train)."`
	Format    string `placeholder:"nccl|osu|both" help:"Whose columns to print (bench collectives)."`
	JSON      string `name:"json" placeholder:"FILE" help:"Write the report as JSON too."`
}

// Run measures.
func (c *benchCmd) Run(a *app) error {
	if c.Name == "list" {
		for _, b := range bench.All() {
			fmt.Fprintf(a.out, "%-12s %s\n", b.Name, b.Doc)
		}
		return nil
	}
	b, err := bench.Find(c.Name)
	if err != nil {
		return err
	}
	if c.Repeats < 1 {
		return errUsage("bench: --repeats must be at least 1")
	}
	if c.JSON != "" {
		if err := report.CheckDir(filepath.Dir(c.JSON), "--json"); err != nil {
			return err
		}
	}
	o := bench.Options{Repeats: c.Repeats, Args: c.settings()}
	if b.Processes == 0 {
		if c.Np != nil || c.Rdzv != "" {
			return errUsage("bench " + c.Name + ": it measures this process alone; leave --np and --rdzv out")
		}
		return c.measure(a, b, o)
	}
	place, err := c.place(a, b.Processes)
	switch {
	case err != nil:
		return err
	case place.Alone():
		return errUsage("bench " + c.Name + ": it measures between processes; give --np 2, or more")
	case a.stop.world != nil:
		o.World = benchWorld(a)
		return c.measure(a, b, o)
	case o.OverMPI():
		return c.measureByMPI(a, b, o, place)
	}
	return a.supervise(place, nil, launcher.Spec{Ranks: place.Processes, Out: os.TempDir()})
}

// settings are the benchmark's own, also those that flags stand for. Of two the first holds.
func (c *benchCmd) settings() []string {
	args := c.Args[:len(c.Args):len(c.Args)]
	for _, flag := range []struct{ key, value string }{{"link", c.Link}, {"compute", c.Compute}, {"device", c.Device}, {"transport", c.Transport}, {"columns", c.Format}} {
		if flag.value != "" {
			args = append(args, flag.key+"="+flag.value)
		}
	}
	return args
}

// measure runs the benchmark here. Rank 0 has the report.
func (c *benchCmd) measure(a *app, b bench.Bench, o bench.Options) error {
	r, err := b.Run(a.out, o)
	if errors.Is(err, bench.ErrStopped) {
		return errStopped
	}
	if err != nil || c.JSON == "" || o.World != nil && o.World.Rank > 0 {
		return err
	}
	if r == nil {
		return errors.New("bench " + c.Name + ": it made no report; check its settings with 'ecrec bench list'")
	}
	return r.WriteJSON(c.JSON)
}

// benchHeartbeat is long: on cores that are short and busy nobody is to be lost.
const benchHeartbeat = 2 * time.Second

// benchWorld is the world of a worker that measures. Each Join makes another
// generation of it.
func benchWorld(a *app) *bench.World {
	w := a.stop.world
	return &bench.World{Rank: w.Process, Size: len(w.Processes), OneHost: neighbours(w) == len(w.Processes),
		Transports: []string{"shm", "tcp"}, Stop: a.stop.asked, Join: benchJoin(netOptions(env.Real(), w, benchHeartbeat))}
}

// benchJoin joins processes of one rank each by o, over shm or tcp.
func benchJoin(o transport.NetOptions) func(string) (transport.Endpoint, error) {
	return func(name string) (transport.Endpoint, error) {
		o.SharedMemory = name == "shm"
		eps, err := transport.Join(o)
		o.Generation++
		if err != nil {
			return nil, err
		}
		return eps[0], nil
	}
}
