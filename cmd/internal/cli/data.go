package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"text/tabwriter"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
)

type dataCmd struct {
	Synth   synthCmd   `cmd:"" help:"Write Criteo-like synthetic samples as a criteo-bin file."`
	Convert convertCmd `cmd:"" help:"Convert a config's text data to one record file."`
	Produce produceCmd `cmd:"" help:"Write the rows of files to a topic, as messages that train reads (data.format = \"kafka\")."`
	Stats   statsCmd   `cmd:"" help:"Print sizes and access skew of a config's data."`
}

// bars shows the progress of a preparation, a live line for each stage.
type bars struct {
	app   *app
	what  string
	total int64
	live  *report.Live
}

func (a *app) newBars() *bars { return &bars{app: a} }

// showProgress is a data.Options.Progress. It returns an error, which ends the work, once a stop is
// requested.
func (b *bars) showProgress(p data.Progress) error {
	if p.What == "" { // the end of a wait
		b.endBars()
		return b.app.stop.err()
	}
	if b.what != p.What || b.total != p.Total {
		b.endBars()
		b.what, b.total, b.live = p.What, p.Total, report.NewLive(b.app.out, p.What, p.Total)
	}
	b.live.Advance(p.Done)
	return b.app.stop.err()
}

func (b *bars) endBars() {
	if b.live != nil {
		b.live.Close()
	}
	b.what, b.live = "", nil
}

type synthCmd struct {
	To      string `required:"" placeholder:"FILE" help:"The file to write."`
	Samples int64  `required:"" placeholder:"N" help:"Number of samples."`
	First   int64  `placeholder:"N" help:"Index of the first sample. Start evaluation data where training data ends."`
	Seed    uint64 `default:"42" help:"Seed of the data."`
	Tables  string `default:"criteo-kaggle" help:"Rows per table: criteo-kaggle, criteo-terabyte or criteo-terabyte-40m."`
	Law     string `enum:"independent,bursts,tails" default:"independent" help:"When rows are used, as data.law."`

	Overwrite bool `help:"Replace an existing file of that name."`
}

// Run writes synthetic data.
func (c *synthCmd) Run(a *app) error {
	tables, err := data.Tables(c.Tables)
	if err != nil {
		return err
	}
	to := target{path: c.To, command: "data synth", writes: "criteo-bin", ending: ".bin", overwrite: c.Overwrite}
	if err := to.validate(); err != nil {
		return err
	}
	b := a.newBars()
	defer b.endBars()
	err = data.Synth(data.SynthOptions{Env: env.Real(), To: c.To, Tables: tables, Seed: c.Seed, Law: c.Law, First: c.First,
		Samples: c.Samples, Progress: b.showProgress})
	if err != nil {
		return err
	}
	b.endBars()
	fmt.Fprintf(a.out, "%s: %s samples\n", c.To, report.Thousands(c.Samples))
	return nil
}

// files selects the training or evaluation data of a config.
type files struct {
	Eval bool `help:"Use data.eval instead of data.train."`
}

func (f files) dataOptions(cfg *config.Config, b *bars) data.Options {
	o := cfg.DataOptions(f.Eval)
	o.Env, o.Progress = env.Real(), b.showProgress
	return o
}

// fitted returns the options of a config's data with a recipe, which is counted in the training data where the config
// requires it.
func (f files) fitted(cfg *config.Config, b *bars) (data.Options, error) {
	o := files{}.dataOptions(cfg, b)
	recipe, err := data.Fit(o)
	if err != nil {
		return o, err
	}
	o = f.dataOptions(cfg, b)
	o.Recipe = recipe
	return o, nil
}

type convertCmd struct {
	fileFlags
	files
	To string `required:"" placeholder:"FILE" help:"The record file to write; read it with data.format = \"record\"."`
}

// Run converts text.
func (c *convertCmd) Run(a *app) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	to := target{path: c.To, command: "data convert", writes: "a record file", ending: ".rec", never: true, ours: data.IsRecordFile}
	if err := to.validate(); err != nil {
		return err
	}
	b := a.newBars()
	defer b.endBars()
	done, err := data.Convert(c.dataOptions(cfg, b), c.To)
	if err != nil {
		return err
	}
	b.endBars()
	for _, bad := range done.Bad {
		fmt.Fprintf(a.out, "skipped: %s\n", oneLine(bad))
	}
	how := "converted"
	if !done.Made {
		how = "already converted"
	}
	fmt.Fprintf(a.out, "%s: %s, %s samples, %s malformed lines skipped\n", done.File, how,
		report.Thousands(done.Samples), report.Thousands(done.Skipped))
	return nil
}

type statsCmd struct {
	fileFlags
	files
	Samples  int64  `placeholder:"N" help:"Read the first N samples only; 0: all."`
	Trainers int    `placeholder:"N" help:"Number of ranks that share a batch; 0: job.ranks."`
	Window   int    `placeholder:"N" help:"Number of batches for which a row stays cached after its last use; 0: oracle.lookahead."`
	JSON     string `name:"json" placeholder:"FILE" help:"Also write the figures as JSON."`
}

// Run measures data.
func (c *statsCmd) Run(a *app) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if cfg.ReadsTopic() && !c.Eval {
		return errUsage("data stats: a topic has no end, and is read by train only; measure a file of its rows")
	}
	if c.JSON != "" {
		if err := report.CheckDir(filepath.Dir(c.JSON), "--json"); err != nil {
			return err
		}
	}
	b := a.newBars()
	defer b.endBars()
	from, err := c.fitted(cfg, b)
	if err != nil {
		return err
	}
	o := data.StatsOptions{Samples: c.Samples, Batch: cfg.Train.GlobalBatch, Trainers: c.Trainers, Window: c.Window, Progress: b.showProgress}
	if o.Trainers == 0 {
		o.Trainers = cfg.Job.Ranks
	}
	if o.Window == 0 {
		o.Window = cfg.Oracle.Lookahead.Batches
	}
	if err := o.Check(); err != nil {
		return err
	}
	debug.FreeOSMemory() // counts and maps are large, and each of these three steps needs its own
	columns, err := data.DescribeColumns(from, c.Samples)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	src, err := data.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Len() == math.MaxInt64 && c.Samples == 0 {
		return errUsage("data stats: synthetic data has no end; limit it with --samples N")
	}
	st, err := data.Stats(src, o)
	if err != nil {
		return err
	}
	st.Columns = columns
	b.endBars()
	printStats(a.out, st, o)
	printColumns(a.out, st.Columns)
	if c.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(c.JSON, append(text, '\n'))
}

// printColumns prints the figures of columns that have names.
func printColumns(out io.Writer, columns []data.ColumnStats) {
	if len(columns) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "column\tmissing\tnegative\tcategories\trows\tshare a row\tunknown\t\n")
	for _, c := range columns {
		name := strconv.Quote(c.Name)
		if c.Number {
			fmt.Fprintf(w, "%s\t%.4f\t%.4f\t\t\t\t\t\n", name, c.Missing, c.Negative)
			continue
		}
		fmt.Fprintf(w, "%s\t%.4f\t\t%s\t%s\t%.4f\t%.4f\t\n", name, c.Missing, report.Thousands(c.Distinct), report.Thousands(c.Rows),
			c.Colliding, c.Unknown)
	}
	w.Flush()
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
	fmt.Fprint(out, "top rows take of the lookups:")
	for _, p := range st.All.Curve {
		fmt.Fprintf(out, " %g %% %.4f,", 100*p.Rows, p.Lookups)
	}
	fmt.Fprintln(out, " of rows and lookups of all tables")
	fmt.Fprintf(out, "%s batches of %s for %s: %.0f unique rows in a batch; one trainer alone uses %.4f of them in the batch, %.4f "+
		"until evicted (%d batches unused)\n",
		report.Thousands(st.Batches), report.Thousands(int64(o.Batch)), report.Count(int64(o.Trainers), "trainer"),
		st.UniquePerBatch, st.OneTrainerBatch, st.OneTrainer, o.Window)
	fmt.Fprintf(out, "of the unique rows in a batch, %.4f are among the top 0.1 %%; several trainers use %.0f of them that the next "+
		"batch uses too\n",
		st.TopInBatch, st.SyncedNext)
}
