package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"text/tabwriter"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/report"
)

type dataCmd struct {
	Synth   synthCmd   `cmd:"" help:"Write Criteo-like synthetic samples as a criteo-bin file."`
	Convert convertCmd `cmd:"" help:"Convert a config's text data to one record file."`
	Stats   statsCmd   `cmd:"" help:"Print sizes and access skew of a config's data."`
}

// bars shows the stages of a long preparation, each with a live line.
type bars struct {
	app   *app
	what  string
	total int64
	live  *report.Live
}

func (a *app) progress() *bars { return &bars{app: a} }

// show is a data.Options.Progress; it ends the work when asked to stop.
func (b *bars) show(p data.Progress) error {
	if b.what != p.What || b.total != p.Total {
		b.close()
		b.what, b.total, b.live = p.What, p.Total, report.NewLive(b.app.out, p.What, p.Total)
	}
	b.live.Advance(p.Done)
	return b.app.stop.check()
}

func (b *bars) close() {
	if b.live != nil {
		b.live.Close()
	}
	b.what, b.live = "", nil
}

type synthCmd struct {
	To      string `required:"" placeholder:"FILE" help:"The file to write."`
	Samples int64  `required:"" help:"How many samples."`
	First   int64  `help:"Index of the first sample; evaluation data begins where training data ends."`
	Seed    uint64 `default:"42" help:"Seed of the data."`
	Tables  string `default:"criteo-kaggle" help:"Rows per table: criteo-kaggle or criteo-terabyte-40m."`
}

// Run writes synthetic data.
func (c *synthCmd) Run(a *app) error {
	tables, err := data.Tables(c.Tables)
	if err != nil {
		return err
	}
	if err := report.CheckDir(filepath.Dir(c.To), "--to"); err != nil {
		return err
	}
	b := a.progress()
	defer b.close()
	err = data.Synth(data.SynthOptions{Env: env.Real(), To: c.To, Tables: tables, Seed: c.Seed, First: c.First,
		Samples: c.Samples, Progress: b.show})
	if err != nil {
		return err
	}
	b.close()
	fmt.Fprintf(a.out, "%s: %s samples\n", c.To, report.Thousands(c.Samples))
	return nil
}

// files says which of a config's data a command is about.
type files struct {
	Eval bool `help:"Take data.eval instead of data.train."`
}

func (f files) options(cfg *config.Config, b *bars) data.Options {
	d := cfg.Data
	o := data.Options{
		Env: env.Real(), Format: d.Format, Files: d.Train, Tables: cfg.Model.TableRows(), Seed: cfg.Job.Seed,
		CSV:     data.CSV{Label: d.CSV.Label, Dense: d.CSV.Dense, Categorical: d.CSV.Categorical, Delimiter: d.CSV.Delimiter[0]},
		SkipBad: d.OnError == "skip", RecordDir: cfg.Job.Out, Progress: b.show,
	}
	if f.Eval {
		o.Files = d.Eval
	}
	return o
}

type convertCmd struct {
	configFlags
	files
	To string `required:"" placeholder:"FILE" help:"The record file to write; read it with data.format = \"record\"."`
}

// Run converts text.
func (c *convertCmd) Run(a *app) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if err := report.CheckDir(filepath.Dir(c.To), "--to"); err != nil {
		return err
	}
	b := a.progress()
	defer b.close()
	done, err := data.Convert(c.options(cfg, b), c.To)
	if err != nil {
		return err
	}
	b.close()
	for _, bad := range done.Bad {
		fmt.Fprintf(a.out, "skipped: %v\n", bad)
	}
	how := "converted"
	if !done.Made {
		how = "was converted before"
	}
	fmt.Fprintf(a.out, "%s: %s, %s samples, %s malformed lines skipped\n", done.File, how,
		report.Thousands(done.Samples), report.Thousands(done.Skipped))
	return nil
}

type statsCmd struct {
	configFlags
	files
	Samples  int64  `help:"Look at the first so many samples only; 0: all."`
	Trainers int    `help:"Ranks that share a batch; 0: job.ranks."`
	Window   int    `help:"Batches for which a row stays cached after its last use; 0: oracle.lookahead."`
	JSON     string `name:"json" placeholder:"FILE" help:"Write the figures as JSON too."`
}

// Run measures data.
func (c *statsCmd) Run(a *app) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if c.JSON != "" {
		if err := report.CheckDir(filepath.Dir(c.JSON), "--json"); err != nil {
			return err
		}
	}
	b := a.progress()
	defer b.close()
	src, err := data.Open(c.options(cfg, b))
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Len() == math.MaxInt64 && c.Samples == 0 {
		return errUsage("data stats: synthetic data has no end; say how many samples with --samples N")
	}
	o := data.StatsOptions{Samples: c.Samples, Batch: cfg.Train.GlobalBatch, Trainers: c.Trainers, Window: c.Window, Progress: b.show}
	if o.Trainers == 0 {
		o.Trainers = cfg.Job.Ranks
	}
	if o.Window == 0 {
		o.Window = cfg.Oracle.Lookahead.Batches
	}
	st, err := data.Stats(src, o)
	if err != nil {
		return err
	}
	b.close()
	printStats(a.out, st, o)
	if c.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(c.JSON, append(text, '\n'))
}

func printStats(out io.Writer, st *data.Statistics, o data.StatsOptions) {
	fmt.Fprintf(out, "samples %s (%s skipped), labels 1: %.4f\n", report.Thousands(st.Samples), report.Thousands(st.Skipped), st.LabelRate)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "table\trows\tseen\ttop 0.1 %% of rows take\t\n")
	for i, t := range st.Tables {
		fmt.Fprintf(w, "%d\t%s\t%s\t%.4f\t\n", i, report.Thousands(t.Rows), report.Thousands(t.Seen), t.TopShare)
	}
	fmt.Fprintf(w, "all\t%s\t%s\t%.4f\t\n", report.Thousands(st.All.Rows), report.Thousands(st.All.Seen), st.All.TopShare)
	w.Flush()
	fmt.Fprintf(out, "%s batches of %s for %d trainers: %.0f unique rows in a batch; one trainer alone uses %.4f of them in the batch, %.4f until evicted (%d batches unused)\n",
		report.Thousands(st.Batches), report.Thousands(int64(o.Batch)), o.Trainers, st.UniquePerBatch, st.OneTrainerBatch, st.OneTrainer, o.Window)
}
