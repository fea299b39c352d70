package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/rundir"
	"github.com/ecrec/ecrec/cmd/internal/runpage"
	"github.com/ecrec/ecrec/internal/atomicfile"
)

type reportCmd struct {
	Path string `arg:"" name:"run" complete:"dir" help:"The output folder of a run (job.out)."`
	To   string `placeholder:"FILE.html" help:"The page to write. Default: report.html in the run's folder."`
}

// Run writes the report of a run.
func (c *reportCmd) Run(a *app) error {
	r, err := readRun(c.Path)
	if err != nil {
		return err
	}
	to := c.To
	if to == "" {
		to = filepath.Join(c.Path, "report.html")
	}
	if !strings.HasSuffix(to, ".html") {
		return errUsage(fmt.Sprintf("--to %s: the report is HTML; give a name that ends in .html", to))
	}
	if err := checkReport(to); err != nil {
		return err
	}
	f, err := atomicfile.Create(to)
	if err != nil {
		return errUsage(fmt.Sprintf("--to %s: %v", to, err))
	}
	defer f.Abort()
	if err := runpage.Write(f, r, rundir.ReadSeries(os.DirFS(c.Path)), time.Now()); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "written to %s\n", to)
	return nil
}

// checkReport returns an error if path names a file that is not a report.
func checkReport(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			defer f.Close()
			head, _ := io.ReadAll(io.LimitReader(f, headBytes)) // a file that cannot be read is not a report
			if bytes.Contains(head, []byte(runpage.Mark)) {
				return nil
			}
		}
	}
	return errUsage(fmt.Sprintf("--to %s: the file exists and is not a report; give another name", path))
}

// headBytes is the length of the beginning of a report that contains its mark.
const headBytes = 1 << 10
