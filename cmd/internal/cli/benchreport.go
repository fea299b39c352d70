package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/bench/paper"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
)

// benchCommands are the commands ecrec bench NAME and ecrec bench report.
type benchCommands struct {
	Run    benchCmd       `cmd:"" default:"withargs" help:"Run a benchmark; 'bench list' lists them, 'bench NAME --help' shows the settings of one."`
	Report benchReportCmd `cmd:"" help:"Measure and draw the figures of papers, as one page: DIR/index.html. The exit code is 1 if a run or a drawing failed, 0 even if checks of shapes do not hold."`
}

type benchReportCmd struct {
	Out    string   `default:"report" placeholder:"DIR" complete:"dir" help:"The folder to write (report): index.html, report.json, ID.csv for each figure, and runs/ with the report and the output of each run."`
	Quick  bool     `xor:"size" help:"Small runs: some 10 minutes in all on 2 cores. The default."`
	Full   bool     `xor:"size" help:"Larger runs, with spreads: less than two hours in all on 2 quiet cores."`
	Only   []string `placeholder:"ID" help:"Only these figures, for example E5,B7. docs/figures.md lists them."`
	Data   string   `placeholder:"CONFIG" complete:"file" help:"Also count the training data of this config, in B3, B4 and B-five."`
	From   string   `placeholder:"DIR" complete:"dir" help:"Measure nothing: draw the runs of this report again."`
	Resume bool     `help:"Continue the report in DIR: runs of this same program are not repeated."`
}

// Run measures and writes the report, or only writes it.
func (c *benchReportCmd) Run(a *app) error {
	if c.From != "" && (c.Quick || c.Full || c.Resume || c.Data != "") {
		return errUsage("bench report: --from measures nothing; remove --quick, --full, --resume and --data")
	}
	if err := report.CheckDir(c.Out, "--out"); err != nil {
		return err
	}
	if c.From != "" {
		return c.drawFrom(a)
	}
	size := paper.Quick
	if c.Full {
		size = paper.Full
	}
	old, err := c.readOld() // before anything is written
	if err != nil {
		return err
	}
	if old != nil && c.Data == "" { // a report that is resumed counts the same data
		c.Data = old.Data
	}
	plan, err := paper.Plan(size, c.Only, c.Data)
	if err != nil {
		return errUsage("bench report: --only: " + err.Error())
	}
	lock, err := c.lockRuns()
	if err != nil {
		return err
	}
	defer lock.Close()
	s, err := c.beginSession(a, size, plan)
	if err != nil {
		return err
	}
	program, err := self()
	if err != nil {
		return fmt.Errorf("bench report: %w", err)
	}
	r := reportRuns{app: a, program: program, session: s, dir: filepath.Join(c.Out, runsFolder), limit: runLimit, lanes: countLanes()}
	if err := r.measureAll(); err != nil {
		return err
	}
	return c.writeFiles(a, *s, r.dir)
}

const (
	runsFolder  = "runs"
	lockFile    = ".lock" // of the runs; a report that is killed before its first record leaves it alone
	sessionFile = "session.json"
	reportFile  = "report.json"
)

// readOld returns the session to resume, or nil. It refuses a folder with a report that is not resumed, and one with other files.
func (c *benchReportCmd) readOld() (*paper.Session, error) {
	old, err := readSession(filepath.Join(c.Out, runsFolder))
	switch {
	case err == nil && !c.Resume:
		return nil, errUsage(fmt.Sprintf("bench report: --out %s has a report of %s; continue it with --resume, or give another folder",
			c.Out, old.When.UTC().Format("2006-01-02 15:04 MST")))
	case err == nil:
		return old, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, errUsage("bench report: --out " + c.Out + ": " + err.Error())
	case c.Resume:
		return nil, errUsage("bench report: --resume: there is no report in " + c.Out)
	}
	if holdsOther(c.Out, runsFolder) || holdsOther(filepath.Join(c.Out, runsFolder), lockFile) {
		return nil, errUsage("bench report: --out " + c.Out + ": the folder is not empty and has no report; give another one")
	}
	return nil, nil
}

// holdsOther reports whether a folder has an entry of another name. One that cannot be read fails when it is written.
func holdsOther(dir, name string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != name })
}

// beginSession returns the session of the report, with the runs that an earlier one has done if it is resumed. The caller holds the lock
// of the runs, so that no other report changes the session meanwhile.
func (c *benchReportCmd) beginSession(a *app, size paper.Size, plan []paper.RunRecord) (*paper.Session, error) {
	old, err := c.readOld()
	if err != nil {
		return nil, err
	}
	program, err := hashProgram()
	if err != nil {
		return nil, fmt.Errorf("bench report: %w", err)
	}
	s := &paper.Session{Size: size.String(), Only: c.Only, Data: c.Data,
		Command: append([]string{"ecrec"}, a.args...), When: time.Now().UTC().Truncate(time.Second),
		Build: buildinfo.Read(), Program: program, Accelerators: accelerators(), Runs: plan}
	if d, err := machine.ReadDisk(os.TempDir()); err == nil {
		s.Disk = &d
	}
	if old != nil {
		c.reuseRuns(s, old)
	}
	return s, nil
}

// lockRuns makes the folder of the runs, and locks it until the file is closed: two reports would overwrite each other's record.
func (c *benchReportCmd) lockRuns() (*os.File, error) {
	dir := filepath.Join(c.Out, runsFolder)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	f, free, err := report.LockFile(filepath.Join(dir, lockFile))
	if err == nil && !free {
		err = errUsage("bench report: --out " + c.Out + ": another report is measured there; wait for it, or give another folder")
	}
	return f, err
}

// reuseRuns marks the runs of a session that an earlier one has done. With --only it also keeps the other runs of that session.
func (c *benchReportCmd) reuseRuns(s, old *paper.Session) {
	keep := len(c.Only) > 0 && old.Size == s.Size
	if keep {
		s.Only = slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.Only, c.Only))))
		if len(old.Only) == 0 {
			s.Only = nil
		}
	}
	for _, o := range old.Runs {
		if !o.Done || o.Program != s.Program {
			continue
		}
		if b, err := readReport(filepath.Join(c.Out, runsFolder, o.File)); err != nil || b.Incomplete != "" {
			continue
		}
		o.Reused, s.Seconds = true, old.Seconds
		if i := slices.IndexFunc(s.Runs, func(x paper.RunRecord) bool { return x.File == o.File }); i >= 0 {
			s.Runs[i].Done, s.Runs[i].Reused, s.Runs[i].Seconds, s.Runs[i].Program = true, true, o.Seconds, o.Program
		} else if keep {
			s.Runs = append(s.Runs, o)
		}
	}
}

// drawFrom draws a report again.
func (c *benchReportCmd) drawFrom(a *app) error {
	dir := filepath.Join(c.From, runsFolder)
	s, err := readSession(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errUsage("bench report: --from " + c.From + ": there is no report in this folder")
	}
	if err != nil {
		return errUsage("bench report: --from: " + err.Error())
	}
	if err := c.checkDrawing(); err != nil {
		return err
	}
	if len(c.Only) > 0 {
		if _, err := paper.Plan(paper.Quick, c.Only, s.Data); err != nil {
			return errUsage("bench report: --only: " + err.Error())
		}
		s.Only = c.Only
	}
	return c.writeFiles(a, *s, dir)
}

// checkDrawing refuses to draw over files that are not a drawing: those of a user, and the page of another report with its own runs.
func (c *benchReportCmd) checkDrawing() error {
	from, err := os.Stat(c.From)
	if err != nil {
		return err
	}
	if out, err := os.Stat(c.Out); err == nil && os.SameFile(from, out) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.Out, runsFolder)); err == nil {
		return errUsage("bench report: --out " + c.Out + ": the folder has runs of its own, which the page would not show; give another one")
	}
	entries, _ := os.ReadDir(c.Out) // a folder that cannot be read fails when it is written
	if _, err := os.Stat(filepath.Join(c.Out, reportFile)); err != nil && len(entries) > 0 {
		return errUsage("bench report: --out " + c.Out + ": the folder is not empty and has no report; give another one")
	}
	return nil
}

// writeFiles draws the figures, and writes the files of the report.
func (c *benchReportCmd) writeFiles(a *app, s paper.Session, dir string) error {
	r := paper.Make(s, func(run paper.Run) (*bench.Report, error) { return readReport(filepath.Join(dir, run.File())) })
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return err
	}
	for _, f := range r.Figures {
		if err := writeAtomically(filepath.Join(c.Out, f.ID+".csv"), f.WriteCSV); err != nil {
			return err
		}
	}
	if err := writeAtomically(filepath.Join(c.Out, reportFile), r.WriteJSON); err != nil {
		return err
	}
	page := filepath.Join(c.Out, "index.html")
	if err := writeAtomically(page, r.WritePage); err != nil {
		return err
	}
	fmt.Fprintln(a.out, r.Summary())
	fmt.Fprintf(a.out, "written to %s\n", page)
	if s.Stopped != "" && c.From == "" {
		return fmt.Errorf("%w after %s; continue with --resume", errStopped, s.Stopped)
	}
	if failed := r.Failed(); len(failed) > 0 {
		return fmt.Errorf("bench report: %d figures failed: %s; the page has their errors", len(failed), strings.Join(failed, ", "))
	}
	return nil
}

func writeAtomically(path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Commit()
}

func readSession(dir string) (*paper.Session, error) {
	var s paper.Session
	if err := readJSON(filepath.Join(dir, sessionFile), &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func readReport(path string) (*bench.Report, error) {
	var r bench.Report
	if err := readJSON(path, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
