package cli

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/report"
)

type inspectCmd struct {
	Dir string `arg:"" help:"A checkpoint, or a folder of several: then its newest."`
}

// Run tells what a checkpoint holds and reads all of it.
func (c *inspectCmd) Run(a *app) error {
	ck, err := findCheckpoint(a.out, c.Dir)
	if err != nil {
		return err
	}
	describe(a.out, ck)
	digest, bad := ck.Verify()
	for _, err := range bad {
		fmt.Fprintf(a.out, "damaged    %s\n", oneLine(err))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: %d of %d files are damaged: %w", ck.Path, len(bad), len(ck.Files), checkpoint.ErrUnusable)
	}
	fmt.Fprintf(a.out, "sums       all hold\ndigest     %v\n", digest)
	if ck.Digest != "" && ck.Digest != digest.String() {
		return fmt.Errorf("%s: the trainer's digest was %s, that of the files is %v: %w", ck.Path, ck.Digest, digest, checkpoint.ErrUnusable)
	}
	return nil
}

func describe(out io.Writer, c *checkpoint.Checkpoint) {
	m := c.Model
	var rows, touched, bytes int64
	for _, t := range m.Tables {
		rows += t.Rows
	}
	for _, f := range c.Files {
		touched += f.Rows
		bytes += f.Bytes
	}
	fmt.Fprintf(out, "checkpoint %s\nstep       %s\nwritten by %d ranks, %d files, %s bytes\n", c.Path, report.Thousands(c.Step), c.Ranks,
		len(c.Files)+1, report.Thousands(bytes))
	fmt.Fprintf(out, "model      %s, seed %d, %d dense tensors, %s rows in %d tables\n", m.Kind, m.Seed, len(m.Tensors), report.Thousands(rows), len(m.Tables))
	fmt.Fprintf(out, "rows       %d weights and %d floats of state; %s are touched\n", m.Width, m.RowState, report.Thousands(touched))
	fmt.Fprintf(out, "optimizer  %s for rows, %s for dense parameters\n", m.Sparse, m.Dense)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, t := range m.Tables {
		fmt.Fprintf(w, "           %s\t%s rows\t\n", t.Name, report.Thousands(t.Rows))
	}
	w.Flush()
}

// findCheckpoint opens a checkpoint, or the newest of a folder that is whole, and
// tells which it passed over.
func findCheckpoint(out io.Writer, path string) (*checkpoint.Checkpoint, error) {
	e := env.Real()
	c, err := checkpoint.Open(e, path)
	if !errors.As(err, new(*checkpoint.NotFound)) {
		return c, err
	}
	newest, problems, ferr := checkpoint.Find(e, path, 0)
	for _, p := range problems {
		fmt.Fprintf(out, "passed over %s\n", oneLine(p.Err))
	}
	if ferr != nil {
		return nil, ferr
	}
	if newest == nil {
		return nil, err
	}
	return newest, nil
}
