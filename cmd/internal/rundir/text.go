package rundir

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/printable"
)

// shownLosses is the number of losses that WriteStatus shows, the newest ones.
const shownLosses = 5

// WriteStatus writes the state of a run as text.
func (r *Run) WriteStatus(w io.Writer, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	put := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable.Quote(fmt.Sprintf(format, args...)))
	}
	put("run", "%s (%s)", r.displayName(), r.Path)
	put("state", "%s", r.stateLine(now))
	if r.Error != "" {
		put("error", "%s", r.Error)
	}
	put("step", "%s", r.stepLine())
	if r.Loss != nil {
		put("loss", "%.5f", *r.Loss)
	}
	if r.Eval != nil {
		put("eval", "logloss %s, AUC %s after step %s", figure(r.Eval.LogLoss), figure(r.Eval.AUC), thousands(r.Eval.Step))
	}
	if r.Spares != nil || len(r.Losses) > 0 {
		put("losses", "%d%s, recoveries %d%s", len(r.Losses), r.returnsText(), r.Recoveries, r.sparesText())
		for _, l := range r.Losses[max(0, len(r.Losses)-shownLosses):] {
			put("", "%s", lossLine(l))
		}
	}
	if c := r.Checkpoint; c != nil {
		put("checkpoint", "step %s, %s ago, %s", thousands(c.Step), span(now.Sub(c.Time)), c.Path)
	}
	if r.Digest != "" {
		put("digest", "%s", r.Digest)
	}
	if r.Earlier != nil {
		put("earlier", "result of an earlier run, digest %s, kept until this run finishes", r.Earlier.Digest)
	}
	if data := r.Config["data.train"]; data != "" && data != "[]" {
		put("data", "%s %s", r.Config["data.format"], data)
	}
	if len(r.Command) > 0 {
		put("command", "%s", strings.Join(r.Command, " "))
	}
	if len(r.Hosts) > 0 {
		put("hosts", "%s", strings.Join(r.Hosts, ", "))
	}
	if r.Version != "" {
		put("version", "%s", strings.TrimSpace(r.Version+" "+short(r.Commit)))
	}
	for _, warning := range r.Warnings {
		put("warning", "%s", warning)
	}
}

func (r *Run) displayName() string {
	if r.Name == "" {
		return "unnamed"
	}
	return r.Name
}

// stateLine returns the state with its time and reason.
func (r *Run) stateLine(now time.Time) string {
	s := string(r.State)
	switch r.State {
	case Running:
		if !r.Started.IsZero() {
			s += " for " + span(now.Sub(r.Started))
		}
		if quiet := now.Sub(r.SeenAt); !r.SeenAt.IsZero() && quiet > time.Minute {
			s += fmt.Sprintf("; nothing written for %s", span(quiet))
		}
	case Interrupted:
		s += ": it was killed"
		if !r.SeenAt.IsZero() {
			s += fmt.Sprintf(" (last line %s ago)", span(now.Sub(r.SeenAt)))
		}
		if r.Checkpoint != nil {
			s += "; continue it with --resume auto"
		} else {
			s += "; it has no checkpoint and would start at step 1"
		}
	case Unknown:
		s += ": no end was recorded, and the folder's lock cannot be checked"
		if !r.SeenAt.IsZero() {
			s += fmt.Sprintf("; last line %s ago", span(now.Sub(r.SeenAt)))
		}
	default:
		if !r.Ended.IsZero() {
			s += fmt.Sprintf(" %s, after %s", r.Ended.UTC().Format("2006-01-02 15:04:05 UTC"), seconds(r.WallS))
		}
	}
	return s
}

func (r *Run) stepLine() string {
	s := thousands(r.Step)
	if r.Steps > 0 {
		s += " of " + thousands(r.Steps)
	}
	if r.SamplesPerS > 0 {
		s += fmt.Sprintf(", %s samples/s", thousands(int64(r.SamplesPerS)))
	}
	if r.EtaS > 0 {
		s += ", ETA " + seconds(r.EtaS)
	}
	if x := r.Rebuild; x != nil && r.State == Running {
		s += fmt.Sprintf("; rebuilding lost rows: %.0f MB left, %.0f MB/s", float64(x.LeftBytes)/1e6, x.BytesPerS/1e6)
	}
	return s
}

// returnsText returns how often a process rejoined and got its ranks back. Each time has a recovery
// and is not a loss.
func (r *Run) returnsText() string {
	if r.Returns == 0 {
		return ""
	}
	return fmt.Sprintf(", returned %d", r.Returns)
}

func (r *Run) sparesText() string {
	if r.Spares == nil {
		return ""
	}
	return fmt.Sprintf(", spares %d", *r.Spares)
}

// lossLine describes a loss: the time, the process and its ranks, the cause, and the replacement.
func lossLine(e event.Event) string {
	s := e.Time.UTC().Format("2006-01-02 15:04:05")
	if e.Process != nil {
		s += fmt.Sprintf(" process %d", *e.Process)
	}
	if len(e.Ranks) > 0 {
		noun := "ranks"
		if len(e.Ranks) == 1 {
			noun = "rank"
		}
		s += fmt.Sprintf(" (%s %s)", noun, list(e.Ranks))
	}
	if e.Node != "" {
		s += " on " + e.Node
	}
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if by := e.ReplacedBy; by != nil {
		s += fmt.Sprintf("; replaced by process %d", by.Process)
		if by.Node != "" {
			s += " on " + by.Node
		}
	}
	return s
}

func list(numbers []int) string {
	var s []string
	for _, n := range numbers {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ", ")
}

// WriteTable writes runs as a table, one per line.
func WriteTable(w io.Writer, runs []*Run) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "run\tstate\tsteps\tloss\tlogloss\tAUC\tsamples/s\twall\tdigest\tversion\tdiffers")
	for _, r := range runs {
		logloss, auc := "-", "-"
		if r.Eval != nil {
			logloss, auc = figure(r.Eval.LogLoss), figure(r.Eval.AUC)
		}
		row := []string{r.Path, string(r.State), thousands(r.Step), figure(r.Loss), logloss, auc, thousands(int64(r.SamplesPerS)),
			seconds(r.WallS), orDash(short(r.Digest)), orDash(firstWord(r.Version)), strings.Join(Differs(runs[0], r), " ")}
		for i := range row {
			row[i] = printable.Quote(row[i])
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
}

// ownKeys differ between any two runs and do not influence the model.
var ownKeys = []string{"job.name", "job.out", "checkpoint.dir", "metrics.listen", "metrics.textfile", "metrics.tensorboard"}

// Differs lists the settings of b that differ from those of a, as key=value.
func Differs(a, b *Run) (all []string) {
	keys := map[string]bool{}
	for _, c := range []map[string]string{a.Config, b.Config} {
		for k := range c {
			keys[k] = true
		}
	}
	if a.Config == nil || b.Config == nil {
		return nil
	}
	for k := range keys {
		if !slices.Contains(ownKeys, k) && a.Config[k] != b.Config[k] {
			all = append(all, k+"="+b.Config[k])
		}
	}
	slices.Sort(all)
	return all
}

func figure(x *float64) string {
	if x == nil {
		return "-"
	}
	return strconv.FormatFloat(*x, 'f', 5, 64)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// shortBytes is the length of a digest or a commit in a table.
const shortBytes = 12

func short(s string) string { return s[:min(len(s), shortBytes)] }

func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// span returns a duration in at most two units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
