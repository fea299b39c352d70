package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/transport"
)

type benchCmd struct {
	placeFlags
	Name      string   `arg:"" complete:"bench" help:"The benchmark to run, or 'list'."`
	Args      []string `arg:"" optional:"" complete:"setting" placeholder:"KEY=VALUE" help:"Settings of the benchmark; 'bench NAME --help' lists them."`
	Repeats   *int     `placeholder:"N" help:"Number of times each figure is measured (5; with --bar 15)."`
	Bar       bool     `help:"Judge the benchmark's bars, a line for each; exit with 1 unless all hold. 'bench NAME --help' lists them."`
	Link      string   `placeholder:"BANDWIDTH,LATENCY" help:"Simulate links of this speed between ranks, for example 10Gb/s,50us (setting link)."`
	Compute   string   `placeholder:"DURATION" help:"Wait this long in place of the forward and backward pass, for example 30ms (setting compute)."`
	Transport string   `placeholder:"mem|shm|tcp|mpi" help:"Transport between ranks (setting transport). mpi needs mpirun and a build with MPI."`
	Device    string   `placeholder:"cpu|cuda" help:"Device to measure (setting device)."`
	Format    string   `placeholder:"nccl|osu|both" help:"Column layout of the printed tables (setting columns)."`
	JSON      string   `name:"json" placeholder:"FILE" help:"Also write the report as JSON."`
}

// Run runs a benchmark, or lists all.
func (c *benchCmd) Run(a *app) error {
	if c.Name == "list" {
		return listBenches(a.out)
	}
	b, err := bench.Find(c.Name)
	if err != nil {
		return err
	}
	if c.Repeats != nil && *c.Repeats < 1 {
		return errUsage("bench: --repeats must be at least 1")
	}
	if c.JSON != "" {
		if err := report.CheckDir(filepath.Dir(c.JSON), "--json"); err != nil {
			return err
		}
	}
	o := bench.Options{Repeats: c.repeats(), Args: c.allSettings()}
	if c.Bar {
		if err := b.CheckBars(o); err != nil {
			return err
		}
	}
	if b.Processes == 0 {
		if c.Np != nil || c.Rdzv != "" {
			return errUsage("bench " + c.Name + ": this benchmark runs in one process; remove --np and --rdzv")
		}
		return c.measureHere(a, b, o)
	}
	place, err := c.findPlace(a, b.Processes, nil)
	switch {
	case err != nil:
		return err
	case place.IsAlone():
		return errUsage("bench " + c.Name + ": this benchmark measures between processes; give --np 2 or more")
	case a.stop.world != nil:
		o.World = benchWorld(a)
		return c.measureHere(a, b, o)
	case o.OverMPI():
		return c.measureByMPI(a, b, o, place)
	}
	return a.supervise(place, nil, launcher.Spec{Ranks: place.Processes, Out: os.TempDir()})
}

// listBenches writes a line for each benchmark.
func listBenches(out io.Writer) error {
	for _, b := range bench.All() {
		if _, err := fmt.Fprintf(out, "%-12s %s\n", b.Name, b.Doc); err != nil {
			return err
		}
	}
	return nil
}

// allSettings returns the arguments of the benchmark. Flags that stand for a setting come last, as
// the first argument of a key counts.
func (c *benchCmd) allSettings() []string {
	args := c.Args[:len(c.Args):len(c.Args)]
	for _, flag := range []struct{ key, value string }{{"link", c.Link}, {"compute", c.Compute}, {"device", c.Device},
		{"transport", c.Transport}, {"columns", c.Format}} {
		if flag.value != "" {
			args = append(args, flag.key+"="+flag.value)
		}
	}
	return args
}

// repeats returns --repeats. Bars take more pairs than a look at the figures.
func (c *benchCmd) repeats() int {
	switch {
	case c.Repeats != nil:
		return *c.Repeats
	case c.Bar:
		return 15
	}
	return 5
}

// stopGrace is the time that a benchmark has to end after a signal. Then the process ends.
const stopGrace = 10 * time.Second

// measureHere runs the benchmark in this process. Rank 0 writes the report, also that of a run which a signal ended.
func (c *benchCmd) measureHere(a *app, b bench.Bench, o bench.Options) error {
	o.Stop, o.Progress = a.stop.isRequested, &bench.Progress{}
	a.stop.setBegun()
	ended := make(chan struct{})
	go a.stop.endLate(stopGrace, ended, func() string {
		_ = o.Progress.RemoveFolders() // a folder that stays is ecrec-bench-*, among the temporary files
		return benchStopText(o.Progress)
	})
	r, err := b.Run(a.out, o)
	close(ended)
	stopped := errors.Is(err, bench.ErrStopped)
	switch {
	case err != nil && !stopped:
		return err
	case o.World != nil && o.World.Rank > 0:
		return benchStopError(stopped, o.Progress)
	case r == nil && !stopped:
		return errors.New("bench " + c.Name + ": the benchmark produced no report")
	case r == nil:
		return benchStopError(stopped, o.Progress)
	}
	return errors.Join(benchStopError(stopped, o.Progress), c.writeReport(a, r))
}

// writeReport writes the report as JSON, and the bars.
func (c *benchCmd) writeReport(a *app, r *bench.Report) error {
	if c.JSON != "" {
		if err := r.WriteJSON(c.JSON); err != nil {
			return err
		}
	}
	if c.Bar && r.Incomplete == "" {
		return r.WriteBars(a.out)
	}
	return nil
}

// benchStopText names the finished part of a benchmark that a signal stopped.
func benchStopText(p *bench.Progress) string {
	if done := p.String(); done != "" {
		return errStopped.Error() + " " + done
	}
	return errStopped.Error() + " before anything was measured"
}

// benchStopError is the error of a benchmark that a signal stopped, nil for another.
func benchStopError(stopped bool, p *bench.Progress) error {
	if !stopped {
		return nil
	}
	return fmt.Errorf("%w%s", errStopped, strings.TrimPrefix(benchStopText(p), errStopped.Error()))
}

// benchHeartbeat is long, so that no process is lost on cores that are few and busy.
const benchHeartbeat = 2 * time.Second

// benchWorld returns the world of a worker that measures. Each Join creates another
// generation of it.
func benchWorld(a *app) *bench.World {
	w := a.stop.world
	host, _, _ := net.SplitHostPort(w.Processes[w.Process].Addr)
	return &bench.World{Rank: w.Process, Size: len(w.Processes), Host: host, OneHost: neighbours(w) == len(w.Processes),
		Transports: []string{"shm", "tcp"}, Stop: a.stop.isRequested, Join: benchJoin(netOptions(env.Real(), w, benchHeartbeat))}
}

// benchJoin returns a function that connects processes of one rank each by a transport: shm, tcp
// or tcp-sealed.
func benchJoin(o transport.NetOptions) func(string) (transport.Endpoint, error) {
	return func(name string) (transport.Endpoint, error) {
		o.SharedMemory, o.Secure = name == "shm", transport.SecureOff
		if name == "tcp-sealed" {
			o.Secure = transport.SecureOn
		}
		eps, err := transport.Join(o)
		o.Generation++
		if err != nil {
			return nil, err
		}
		return eps[0], nil
	}
}
