package cli

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/cmd/internal/chaos"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/launcher/control"
)

// chaosSpec is a value of --chaos. The value "list" ends the command and prints the points.
type chaosSpec string

// chaosListed is the error that ends parsing after --chaos list.
type chaosListed struct{}

func (chaosListed) Error() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	for _, p := range injectable() {
		fmt.Fprintf(w, "%v\t%s\n", p, p.Doc())
	}
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}

// injectable lists the points at which --chaos injects faults.
func injectable() []probe.Point { return append(probe.All(), probe.Steady) }

// Decode implements kong's interface for values.
func (s *chaosSpec) Decode(ctx *kong.DecodeContext) error {
	if err := ctx.Scan.PopValueInto("spec", (*string)(s)); err != nil {
		return err
	}
	if *s == "list" {
		return chaosListed{}
	}
	return nil
}

// parseFaults returns the faults that --chaos asks for.
func (c *trainCmd) parseFaults(ranks int) (all []chaos.Fault, err error) {
	var names []string
	for _, p := range injectable() {
		names = append(names, p.String())
	}
	for _, spec := range c.Chaos {
		f, err := chaos.Parse(string(spec), ranks, names)
		if err != nil {
			return nil, errUsage(err.Error())
		}
		all = append(all, f)
	}
	return all, nil
}

// newInjector returns the function that injects faults into this worker, nil if there are none. A
// fault fires when its rank reaches its point at its step, or later if that step does not
// reach the point.
func (s *session) newInjector(faults []chaos.Fault) func(rank int, step int64, at probe.Point) error {
	if len(faults) == 0 || s.world == nil {
		return nil
	}
	return func(rank int, step int64, at probe.Point) error {
		for i, f := range faults {
			if f.Point != at.String() || step < f.Step || s.world.Fired(i) {
				continue
			}
			if f.Rank == rank {
				s.world.Fire(control.Fault{Number: i, Do: control.FaultKind(f.Kind), For: f.For})
			}
			if at == probe.Steady { // the next one waits until the run is steady again
				break
			}
		}
		return nil
	}
}

// envRebuildRows names the variable that fixes how many rows each step rebuilds, in addition to
// those that the step reads. It makes a rebuild last long, for a demonstration or a test, and
// changes no result.
const envRebuildRows = "ECREC_REBUILD_ROWS"

// envPauseSaves names the variable that, if it is set, makes training wait for each save: the baseline of ecrec bench faults. It
// changes no result.
const envPauseSaves = "ECREC_PAUSE_SAVES"

// envStandbyGPU names the variable that, if it is set, makes standbys open the machine's only GPU, so that recoveries need not wait for
// that. It changes no result.
const envStandbyGPU = "ECREC_STANDBY_GPU"

func rebuildRows(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errUsage(fmt.Sprintf("environment variable %s is %q; want a number of rows, at least 1, or unset it", envRebuildRows, text))
	}
	return n, nil
}
