package paper

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
)

// Session is the record of the runs of a report, beside their report files. A page needs nothing else.
type Session struct {
	Size         string         `json:"size"` // tiny, quick or full
	Only         []string       `json:"only,omitempty"`
	Data         string         `json:"data,omitempty"` // the config of a run whose training data are counted
	Command      []string       `json:"command"`
	When         time.Time      `json:"when"`    // the session began
	Seconds      float64        `json:"seconds"` // of measuring, by the clock on the wall
	Build        buildinfo.Info `json:"build"`
	Program      string         `json:"program"` // a hash of the executable
	Accelerators []string       `json:"accelerators,omitempty"`
	Disk         *machine.Disk  `json:"disk,omitempty"` // of temporary files
	Runs         []RunRecord    `json:"runs"`
	// Stopped is the part of the runs that was done when a signal ended them: "3 of 20 runs".
	Stopped string `json:"stopped,omitempty"`
}

// RunRecord is the outcome of a run.
type RunRecord struct {
	Run     Run      `json:"run"`
	File    string   `json:"file"` // of the report, in the folder of the session
	Figures []string `json:"figures"`
	Seconds float64  `json:"seconds"`
	Done    bool     `json:"done"`
	Program string   `json:"program,omitempty"` // a hash of the executable that measured
	Reused  bool     `json:"reused,omitempty"`  // an earlier session measured it
	Error   string   `json:"error,omitempty"`
}

// String is the name of the size.
func (s Size) String() string { return [...]string{"tiny", "quick", "full"}[s] }

// parseSize is the inverse of String; an unknown name is Tiny.
func parseSize(name string) Size {
	return Size(max(int(Tiny), slices.Index([]string{"tiny", "quick", "full"}, name)))
}

// File is the name of the report of a run: the benchmark, and a hash of the command line.
func (r Run) File() string {
	sum := sha256.Sum256([]byte(r.String()))
	return r.Bench + "-" + hex.EncodeToString(sum[:6]) + ".json"
}

// IsTimed reports whether values of the run depend on the speed of the machine. Those of the others are counts and virtual times, the same
// beside any load.
func (r Run) IsTimed() bool {
	switch r.Bench {
	case "cache", "load", "popularity", "sizes", "skew":
		return false
	case "exchange": // the placement of samples is timed
		return slices.ContainsFunc(r.Args, func(a string) bool { return strings.Contains(a, "partitioned-placed") })
	case "ideal", "overhead", "recovery":
		return !slices.Contains(r.Args, "clock=virtual")
	}
	return true
}

// planDrawings lists the runs of the wanted drawings, each once, in the order of the drawings.
func planDrawings(drawings []Drawing, size Size, only []string) (runs []RunRecord) {
	for _, d := range drawings {
		if d.Runs == nil || !isWanted(d.ID, only) {
			continue
		}
		for _, r := range d.Runs(size) {
			i := slices.IndexFunc(runs, func(x RunRecord) bool { return x.Run.String() == r.String() })
			if i < 0 {
				runs = append(runs, RunRecord{Run: r, File: r.File()})
				i = len(runs) - 1
			}
			if !slices.Contains(runs[i].Figures, d.ID) {
				runs[i].Figures = append(runs[i].Figures, d.ID)
			}
		}
	}
	return runs
}

func isWanted(id string, only []string) bool { return len(only) == 0 || slices.Contains(only, id) }
