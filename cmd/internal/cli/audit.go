package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/audit"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/cmd/internal/rundir"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/lineage"
)

type auditCmd struct {
	Path    string   `arg:"" name:"run" complete:"dir" help:"The output folder of a run (job.out), with its checkpoints where they were saved."`
	From    int64    `placeholder:"STEP" help:"Audit the steps after this one. Default: from the start of the run."`
	To      int64    `placeholder:"STEP" help:"Audit the steps up to this one. Default: up to the last one that the run has recorded."`
	Sample  int      `placeholder:"N" help:"Audit only N intervals between checkpoints, drawn at random."`
	Seed    uint64   `placeholder:"SEED" help:"Draw the intervals of --sample by this seed. Default: by the clock."`
	Np      int      `name:"np" default:"1" placeholder:"P" help:"Compute with P processes."`
	Set     []string `name:"set" sep:"none" complete:"key" placeholder:"KEY=VALUE" help:"Override a key of the run's config that does not change its result, such as cache.mode (repeatable)."`
	Scratch string   `placeholder:"DIR" help:"Compute in a new folder in DIR, which is removed at the end; after a difference it holds one checkpoint. Default: the folder for temporary files."`
}

// auditing is an audit in progress.
type auditing struct {
	*auditCmd
	app     *app
	cfg     *config.Config // of the run
	record  *audit.Record
	scratch string
	started time.Time
	steps   int64 // computed again
	digests int   // that were equal
	skipped int   // commits of the run that were not made again
	equal   int   // checkpoints
	lastEnd int64 // the step of the last checkpoint that was compared, -1: none
}

// Run computes intervals of a run again, and compares them with the record of the run.
func (c *auditCmd) Run(a *app) error {
	x, plan, err := c.plan(a)
	if err != nil {
		return err
	}
	if len(x.record.Twice) > 0 {
		return fmt.Errorf("audit: the run has committed step %d twice, with different digests: "+
			"it did not repeat its own steps exactly; see events.jsonl", x.record.Twice[0])
	}
	if x.scratch, err = os.MkdirTemp(c.Scratch, "ecrec-audit-"); err != nil {
		return errUsage(fmt.Sprintf("--scratch: %v", err))
	}
	defer os.RemoveAll(x.scratch)
	for i, v := range plan {
		report.Line(a.out, "%d of %d: steps %s to %s, %s", i+1, len(plan), report.Thousands(v.From+1), report.Thousands(v.To), originText(v))
		if err := x.auditInterval(v); err != nil {
			return err
		}
	}
	skipped := ""
	if x.skipped > 0 {
		skipped = fmt.Sprintf(" (%s of the run, at stops or rollbacks, have no counterpart)", report.Count(int64(x.skipped), "commit"))
	}
	report.Line(a.out, "equal: %s, with %s%s and %s, in %v", report.Count(x.steps, "step"), report.Count(int64(x.digests), "digest"), skipped,
		report.Count(int64(x.equal), "checkpoint"), time.Since(x.started).Round(time.Second/10))
	return nil
}

func originText(v audit.Interval) string {
	if v.Start == "" {
		return "from the start of the run"
	}
	return "from " + v.Start
}

// plan reads the record of the run, and plans the intervals. It computes nothing.
func (c *auditCmd) plan(a *app) (*auditing, []audit.Interval, error) {
	run, err := readRun(c.Path)
	if err != nil {
		return nil, nil, err
	}
	if c.Np < 1 || c.Sample < 0 || c.From < 0 || c.To < 0 {
		return nil, nil, errUsage("--np needs 1 or more; --from, --to and --sample need 0 or more")
	}
	x := &auditing{auditCmd: c, app: a, started: time.Now(), lastEnd: -1}
	if x.cfg, err = config.Load(x.config(), nil); err != nil {
		return nil, nil, err
	}
	here, err := c.checkSets(x.cfg)
	if err != nil {
		return nil, nil, err
	}
	events, err := event.ReadFile(filepath.Join(c.Path, event.File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("audit: %w", err)
	}
	x.record = audit.RecordOf(events)
	if end := x.record.EndDigest; end != "" && run.State == rundir.Finished && run.Digest != end {
		return nil, nil, fmt.Errorf("audit: summary.json has digest %s, and the end in events.jsonl has %s; one of them was changed", run.Digest, end)
	}
	for step, path := range x.record.Checkpoints {
		if !checkpoint.At(path) {
			path = filepath.Join(x.cfg.Checkpoint.Dir, filepath.Base(path)) // the folder has moved, with its config changed
		}
		if x.record.Checkpoints[step] = path; !checkpoint.At(path) { // checkpoint.keep has removed it
			delete(x.record.Checkpoints, step)
		}
	}
	if err := x.checkData(here); err != nil {
		return nil, nil, err
	}
	want := audit.Range{From: c.From, To: c.To, Sample: c.Sample, Seed: c.Seed}
	if want.Seed == 0 {
		want.Seed = uint64(time.Now().UnixNano())
	}
	plan, err := audit.PlanOf(x.record, want)
	if err != nil {
		return nil, nil, errUsage("audit: " + err.Error())
	}
	if c.Sample > 0 {
		report.Line(a.out, "intervals drawn by --seed %d", want.Seed)
	}
	return x, plan, nil
}

// checkSets checks that --set changes nothing that the result of the run depends on.
// It returns the config with them.
func (c *auditCmd) checkSets(run *config.Config) (*config.Config, error) {
	here, err := config.Load(filepath.Join(c.Path, "config.toml"), c.Set)
	if err != nil {
		return nil, err
	}
	if d := lineage.OfConfig(run).Diff(lineage.OfConfig(here), false); len(d) > 0 {
		return nil, errUsage(fmt.Sprintf("--set: an audit computes the run as it was, and %s; only keys that do not change the result can be set",
			lineage.Text(d)))
	}
	return here, nil
}

func (x *auditing) config() string { return filepath.Join(x.Path, "config.toml") }

// checkData checks that the training data is that of the run, by the sizes and sums that the run has recorded.
func (x *auditing) checkData(cfg *config.Config) error {
	if cfg.ReadsTopic() {
		return nil // its messages have no sum: if they have changed, the digests differ
	}
	result, err := report.Look(x.Path)
	if err != nil {
		return err
	}
	same, known := sameData(cfg, result)
	for _, path := range x.record.Checkpoints {
		if known {
			break
		}
		c, err := checkpoint.Open(env.Real(), path)
		if err != nil || c.Run == nil {
			continue
		}
		here, err := data.Identify(env.Real(), cfg.Data.Train)
		if err != nil {
			return err
		}
		there, ok := c.Run.Recipe.Value("data.train")
		same, known = len(here.Files) == 0 || strings.Contains(there, here.String()), ok
	}
	if known && !same {
		return errUsage(fmt.Sprintf("audit: data.train %q is not the data that the run read: sizes or sums differ; restore the files",
			cfg.Data.Train))
	}
	return nil
}

// auditInterval computes an interval again, and compares its digests and its last checkpoint.
func (x *auditing) auditInterval(v audit.Interval) error {
	if err := x.checkStart(v); err != nil {
		return err
	}
	here, err := x.compute(v, "")
	if err != nil {
		return err
	}
	x.steps += v.Steps()
	verdict := audit.CompareDigests(x.record, v, here)
	x.digests += verdict.Equal
	x.skipped += verdict.Skipped
	if d := verdict.Difference; d != nil {
		return x.explain(v, d)
	}
	if v.End == "" {
		return nil
	}
	sum, err := verifyCheckpoint(v.End, v.To)
	if err != nil {
		return err
	}
	if sum.String() != here.EndDigest {
		report.Line(x.app.out, "  the checkpoint of step %s has digest %s, and the steps lead to %s", report.Thousands(v.To), sum, here.EndDigest)
		if err := x.nameRows(v); err != nil {
			return err
		}
		return fmt.Errorf("audit: the checkpoint of step %d is not the model that the run had after that step: "+
			"it was written wrongly, or changed later", v.To)
	}
	x.equal++
	x.lastEnd = v.To
	return nil
}

// checkStart checks that the checkpoint that an interval begins with has the digest that the run recorded, unless
// the interval before has ended there.
func (x *auditing) checkStart(v audit.Interval) error {
	want := x.record.DigestAt(v.From)
	if v.Start == "" || want == "" || x.lastEnd == v.From {
		return nil
	}
	sum, err := verifyCheckpoint(v.Start, v.From)
	if err != nil || sum.String() == want {
		return err
	}
	return x.explain(v, &audit.Difference{After: v.From, Step: v.From, Run: want, Here: sum.String()})
}

// verifyCheckpoint returns the digest of the model of a checkpoint. A damaged one is a finding, not a mistake in the
// command.
func verifyCheckpoint(path string, step int64) (digest.Sum, error) {
	c, err := checkpoint.Open(env.Real(), path)
	bad := []error{err}
	sum := digest.Sum{}
	if err == nil {
		sum, bad = c.Verify()
	}
	if len(bad) > 0 {
		return sum, fmt.Errorf("audit: the checkpoint of step %d cannot be used: %v", step, bad[0])
	}
	return sum, nil
}

// explain describes the first digest that differs: the rows of the checkpoint that the interval begins with if they
// are wrong, else those of the one after it.
func (x *auditing) explain(v audit.Interval, d *audit.Difference) error {
	at := fmt.Sprintf("after step %d", d.Step)
	if d.After < d.Step {
		at = fmt.Sprintf("in steps %d to %d", d.After+1, d.Step)
	}
	report.Line(x.app.out, "  the digest after step %s is %s in the run, and %s here", report.Thousands(d.Step), d.Run, d.Here)
	if before, ok := x.record.Before(v.From); ok && v.Start != "" && x.lastEnd != v.From {
		report.Line(x.app.out, "  is the checkpoint of step %s right? computing it from step %s", report.Thousands(v.From),
			report.Thousands(before.From))
		if err := x.auditInterval(before); err != nil {
			return err
		}
	}
	if d.Step == v.From {
		return fmt.Errorf("audit: the checkpoint of step %d is not the model that the run committed after that step", v.From)
	}
	if v.End != "" {
		if err := x.nameRows(v); err != nil {
			return err
		}
	}
	return fmt.Errorf("audit: the run and its re-execution differ %s: one of them has computed or stored a value wrongly", at)
}

// nameRows computes an interval once more, saves a checkpoint, and prints the values in which that of the run
// differs.
func (x *auditing) nameRows(v audit.Interval) error {
	dir := filepath.Join(x.scratch, "checkpoints")
	if _, err := x.compute(v, dir); err != nil {
		return err
	}
	run, err := checkpoint.Open(env.Real(), v.End)
	if err != nil {
		return err
	}
	here, _, err := checkpoint.Find(env.Real(), dir, 0)
	if err != nil {
		return err
	}
	if here == nil {
		return errors.New("audit: the re-execution saved no checkpoint to compare with; see whether --scratch has room for one")
	}
	c, err := checkpoint.Compare(run, here)
	if err != nil {
		return err
	}
	report.Line(x.app.out, "  in the checkpoint of step %s, %s of %s and %s differ; the first, in the run and here:", report.Thousands(v.To),
		report.Count(c.Rows, "row"), report.Count(int64(c.Tables), "table"), report.Count(c.Dense, "dense value"))
	for _, d := range c.First {
		report.Line(x.app.out, "  %s", d)
	}
	return nil
}

// compute trains the steps of an interval in a folder of its own, and returns the record. It saves a checkpoint
// of the last step in a folder, if one is given.
func (x *auditing) compute(v audit.Interval, saveIn string) (*audit.Record, error) {
	out := filepath.Join(x.scratch, "run")
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	args := []string{"train", x.config(), "--np", strconv.Itoa(x.Np), "--until", strconv.FormatInt(v.To, 10)}
	if v.Start != "" {
		args = append(args, "--resume", v.Start)
	}
	for _, set := range append(x.sets(out, saveIn), x.Set...) {
		args = append(args, "--set", set)
	}
	var said bytes.Buffer
	err := x.app.runChild(args, &said, &said)
	if x.app.stop.isRequested() {
		return nil, errStopped
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		text := fmt.Sprintf("audit: steps %d to %d could not be computed: %s", v.From+1, v.To, strings.TrimPrefix(lines[len(lines)-1], "ecrec: "))
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitBad {
			return nil, errUsage(text)
		}
		return nil, errors.New(text)
	}
	events, err := event.ReadFile(filepath.Join(out, event.File))
	if err != nil {
		return nil, err
	}
	here := audit.RecordOf(events)
	if here.End != v.To || here.EndDigest == "" {
		return nil, fmt.Errorf("audit: the re-execution ended after step %d, not %d", here.End, v.To)
	}
	return here, nil
}

// sets are the settings of a re-execution: no output but its events, and nothing beside training that does not change
// the result.
func (x *auditing) sets(out, saveIn string) []string {
	c := x.cfg
	sets := []string{"job.out=" + out, "job.save_model=false", "job.on_event=[]", "checkpoint.dir=" + saveIn, "checkpoint.every=0",
		"checkpoint.kind=full", "ec.code=none", "train.keep=last", "metrics.listen=", "metrics.textfile=", "metrics.tensorboard=false",
		fmt.Sprintf("job.digests=%v", len(x.record.Commits) > 0)}
	if c.Store.Tier == "file" { // the rows may not fit in memory; a commit is early where too many were written
		sets = append(sets, "store.path="+filepath.Join(out, "store"), "ec.commit_every=1")
	} else {
		sets = append(sets, "store.path=")
	}
	if c.Train.Patience == 0 && c.Train.PlateauPatience == 0 {
		sets = append(sets, "train.eval_every=0")
	}
	if format, ok := data.FindFormat(c.Data.Format); ok && format.IsConverted() && c.Data.Cache == "" {
		sets = append(sets, "data.cache="+c.Job.Out) // the run has converted its data there
	}
	return sets
}
