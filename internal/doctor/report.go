package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
)

// Report is what all checks found.
type Report struct {
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Version string    `json:"version"`
	Checks  []Check   `json:"checks"`
	Healthy bool      `json:"healthy"` // no check has failed
}

// Options are what to look at beyond the machine itself.
type Options struct {
	Out    string // an output folder that jobs will write to; "": none, the current one is only measured
	Expect Expectations
}

// Examine asks the machine everything, which takes no longer than Limit.
func Examine(o Options) *Report {
	return newReport(answers(o.questions(), Limit), o.Expect)
}

func newReport(checks []Check, expect Expectations) *Report {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r := &Report{Host: host, Time: time.Now().UTC().Truncate(time.Second), Version: machine.Version(), Checks: checks}
	expect.compare(r.Checks)
	r.Healthy = r.Err() == nil
	return r
}

// Err names all checks that have failed, in a line; nil when none has.
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

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report for people, aligned.
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
