package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
)

// Report is the result of all checks.
type Report struct {
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	Checks  []Check   `json:"checks"`
	Healthy bool      `json:"healthy"` // no check has failed
}

// Options extend the checks of the machine.
type Options struct {
	Out    string // an output folder that jobs will write to; empty: only the size of the current folder is read
	Expect Expectations
}

// Examine runs all checks. It takes no longer than CompileLimit, and mostly no longer than Limit.
func Examine(o Options) *Report {
	return newReport(runAll(o.allQuestions(), Limit), o.Expect)
}

func newReport(checks []Check, expect Expectations) *Report {
	r := &Report{Host: cmp.Or(machine.NodeName(), "unknown"), Time: time.Now().UTC().Truncate(time.Second),
		Version: buildinfo.Read().String(), Checks: checks}
	expect.failBelow(r.Checks)
	r.Healthy = r.Err() == nil
	return r
}

// Err returns an error of one line that names all failed checks, nil if there are none.
func (r *Report) Err() error {
	var failed []string
	for _, c := range r.Checks {
		if c.Status == Fail {
			failed = append(failed, fmt.Sprintf("%s: %s (%s)", c.Name, c.Value, c.Detail))
		}
	}
	if failed == nil {
		return nil
	}
	return errors.New("not healthy: " + strings.Join(failed, "; "))
}

// WriteJSON writes the report as one JSON object on one line, so that the reports of many machines
// in one file are JSON lines.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report as a table.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	part := ""
	for _, c := range r.Checks {
		if c.Part != part {
			part = c.Part
			fmt.Fprintf(w, "%s\n", part)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", c.Name, c.Status, c.Value)
		if c.Detail != "" {
			fmt.Fprintf(w, "  \t\t  %s\n", c.Detail)
		}
	}
	return w.Flush()
}
