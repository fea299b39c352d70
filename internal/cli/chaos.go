package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/internal/chaos"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
)

// chaosSpec is a --chaos. "list" ends the command line with the names of points.
type chaosSpec string

// chaosListed is what parsing --chaos list ends with.
type chaosListed struct{}

func (chaosListed) Error() string { return strings.Join(train.Points, "\n") }

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

// faults reads what --chaos asks for.
func (c *trainCmd) faults(ranks int) (all []chaos.Fault, err error) {
	for _, spec := range c.Chaos {
		f, err := chaos.Parse(string(spec), ranks, append(slices.Clone(train.Points), train.Calm))
		if err != nil {
			return nil, errUsage(err.Error())
		}
		all = append(all, f)
	}
	return all, nil
}

// chaosIn has faults happen to this worker when one of its ranks comes to their
// points, at their steps or, where a point is not met at every step, later; nil where
// there are none.
func (s *session) chaosIn(faults []chaos.Fault) func(rank int, step int64, point string) error {
	if len(faults) == 0 || s.world == nil {
		return nil
	}
	return func(rank int, step int64, point string) error {
		for i, f := range faults {
			if f.Point != point || step < f.Step || s.world.Fired(i) {
				continue
			}
			if f.Rank == rank {
				s.world.Fire(launcher.Fault{Number: i, Do: launcher.FaultKind(f.Kind), For: f.For})
			}
			if point == train.Calm { // the next one waits until all is whole after this one
				break
			}
		}
		return nil
	}
}

// envRepairRows says how many rows a step rebuilds, or as many more as it is about to read:
// for who wants to see a rebuild that takes long. It changes no result.
const envRepairRows = "ECREC_REBUILD_ROWS"

func repairRows(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errUsage(fmt.Sprintf("environment variable %s is %q; want a number of rows from 1 on, or unset it", envRepairRows, text))
	}
	return n, nil
}
