package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/train/modelfile"
)

type inspectCmd struct {
	Dir string `arg:"" name:"path" complete:"model" help:"A checkpoint, a folder of checkpoints to take the newest of, a model file, or a run's output folder."`
}

// Run describes a checkpoint and verifies all its files, or describes a model file and verifies its checksum.
func (c *inspectCmd) Run(a *app) error {
	if from, err := findModel(c.Dir); err == nil && from.file != "" && !checkpoint.At(c.Dir) {
		return describeFile(a.out, from.file)
	}
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
		return fmt.Errorf("%s: %d of its files, or of those of its parents, are damaged: %w", ck.Path, len(bad), checkpoint.ErrUnusable)
	}
	fmt.Fprintf(a.out, "checksums  all match\ndigest     %v\n", digest)
	if ck.Digest != "" && ck.Digest != digest.String() {
		return fmt.Errorf("%s: the manifest has digest %s, the files have %v: %w", ck.Path, ck.Digest, digest, checkpoint.ErrUnusable)
	}
	return nil
}

func describe(out io.Writer, c *checkpoint.Checkpoint) {
	m := c.Model
	var rows, touched, bytes int64
	for _, t := range m.Tables {
		rows += t.Rows
	}
	for _, f := range c.AllFiles() {
		touched += f.Rows
		bytes += f.Bytes
	}
	fmt.Fprintf(out, "checkpoint %s\nstep       %s\nwritten by %d ranks, %d files, %s bytes\n", c.Path, report.Thousands(c.Step), c.Ranks,
		len(c.AllFiles())+1, report.Thousands(bytes))
	describeRun(out, c.Run)
	fmt.Fprintf(out, "model      %s, seed %d, %d dense tensors, %s rows in %d tables\n", m.Kind, m.Seed, len(m.Tensors),
		report.Thousands(rows), len(m.Tables))
	of := "touched"
	if p := c.Parent; p != nil {
		of = "written since step " + report.Thousands(p.Step)
		_, _, n := c.ChainRows()
		fmt.Fprintf(out, "kind       increment of %s, the %s after the last full checkpoint\n", p.Name, ordinal(n))
	}
	fmt.Fprintf(out, "rows       %d weights and %d floats of state each; %s %s\n", m.Width, m.RowState, report.Thousands(touched), of)
	if len(m.Parts) > 1 {
		fmt.Fprintf(out, "parts      %s\n", m.RowText())
	}
	fmt.Fprintf(out, "optimizer  %s for rows, %s for dense parameters\n", m.Sparse, m.Dense)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, t := range m.Tables {
		fmt.Fprintf(w, "           %s\t%s rows\t\n", t.Name, report.Thousands(t.Rows))
	}
	w.Flush()
}

// ordinal is 1st, 2nd, 3rd, ...
func ordinal(n int) string {
	ending := "th"
	if k := n % 10; k >= 1 && k <= 3 && n/10%10 != 1 {
		ending = []string{"st", "nd", "rd"}[k-1]
	}
	return fmt.Sprint(n, ending)
}

// describeFile prints the tensors of a model file and its metadata, and verifies its checksum.
func describeFile(out io.Writer, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(out, "model file %s\n", path)
	unread := 0
	for key := range f.Metadata {
		if !slices.Contains(modelfile.Keys, key) {
			unread++
		}
	}
	if unread == len(f.Metadata) {
		fmt.Fprintln(out, "recipe     none in the file")
	}
	for _, key := range modelfile.Keys {
		for i, line := range strings.Split(strings.TrimSpace(f.Metadata[key]), "\n") {
			if line == "" {
				continue
			}
			name := ""
			if i == 0 {
				name = strings.TrimPrefix(key, "ecrec.")
			}
			fmt.Fprintf(out, "%-10s %s\n", name, printable.Shorten(printable.Quote(line), maxLine, lastOfLine))
		}
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, t := range f.Tensors() {
		fmt.Fprintf(w, "           %s\t%v\n", printable.Shorten(printable.Quote(t.Name), maxLine, lastOfLine), t.Shape)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Verify(); err != nil {
		return err
	}
	fmt.Fprintf(out, "checksum   %s\n", map[bool]string{true: "matches", false: "none in the file"}[f.HasChecksum()])
	return nil
}

// findCheckpoint opens a checkpoint, or the newest valid one of a folder. It prints the
// others that it skips.
func findCheckpoint(out io.Writer, path string) (*checkpoint.Checkpoint, error) {
	e := env.Real()
	c, err := checkpoint.Open(e, path)
	if !errors.As(err, new(*checkpoint.NotFound)) {
		return c, err
	}
	newest, problems, ferr := checkpoint.Find(e, path, 0)
	for _, p := range problems {
		fmt.Fprintf(out, "skipped checkpoint: %s\n", oneLine(p.Err))
	}
	if ferr != nil {
		return nil, ferr
	}
	if newest == nil {
		return nil, err
	}
	return newest, nil
}

// describeRun prints the run that a checkpoint belongs to.
func describeRun(out io.Writer, r *lineage.Run) {
	if r == nil {
		fmt.Fprintln(out, "run        not recorded in the checkpoint")
		return
	}
	fmt.Fprintf(out, "run        %q\nlineage    %v\n", r.Name, r.Lineage)
	for _, f := range r.Forks {
		fmt.Fprintf(out, "forked     from lineage %v after step %s\n", f.Lineage, report.Thousands(f.Step))
	}
	for _, e := range r.Recipe {
		fmt.Fprintf(out, "             %s\n", printable.Shorten(printable.Quote(e.Key+" = "+e.Value), maxLine, lastOfLine))
	}
}
