package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/internal/doctor"
	"github.com/ecrec/ecrec/internal/report"
)

type benchCmd struct {
	Name    string   `arg:"" help:"The benchmark, or 'list'."`
	Args    []string `arg:"" optional:"" placeholder:"KEY=VALUE" help:"The benchmark's own settings."`
	Repeats int      `default:"5" help:"How often each figure is measured."`
	Link    string   `placeholder:"BANDWIDTH,LATENCY" help:"Give the ranks links, like 10Gb/s,50us (benchmarks with a setting link)."`
	Compute string   `placeholder:"DURATION" help:"Wait in place of forward and backward, like 30ms (benchmarks with a setting compute)."`
	JSON    string   `name:"json" placeholder:"FILE" help:"Write the report as JSON too."`
}

// Run measures.
func (c *benchCmd) Run(a *app) error {
	if c.Name == "list" {
		for _, b := range bench.All() {
			fmt.Fprintf(a.out, "%-10s %s\n", b.Name, b.Doc)
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
	if c.Link != "" {
		c.Args = append(c.Args, "link="+c.Link)
	}
	if c.Compute != "" {
		c.Args = append(c.Args, "compute="+c.Compute)
	}
	r, err := b.Run(a.out, bench.Options{Repeats: c.Repeats, Args: c.Args})
	if err != nil {
		return err
	}
	if c.JSON == "" {
		return nil
	}
	if r == nil {
		return errors.New("bench " + c.Name + ": it made no report; check its settings with 'ecrec bench list'")
	}
	return r.WriteJSON(c.JSON)
}

type doctorCmd struct{}

// Run prints what the machine offers.
func (doctorCmd) Run(a *app) error {
	doctor.Print(a.out)
	return nil
}
