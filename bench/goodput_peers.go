package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// goodputScript is a supervisor and its workers.
//
//go:embed peers/goodput.py
var goodputScript []byte

// torchPeers are the systems of PyTorch.
type torchPeers struct {
	python string
	why    map[string]string // why a system is not measured
	steps  map[string]int    // of a run of each system
}

func (p *torchPeers) isFor(system string) bool { return system == sysRestart || system == sysTorchFT }

// missing returns why a system is not measured, empty if it is.
func (p *torchPeers) missing(system string) string { return p.why[system] }

// findModules looks for the modules.
func (p *torchPeers) findModules(b *goodputRun) (err error) {
	p.why, p.steps = map[string]string{}, map[string]int{}
	if p.python, err = b.o.findPython(); err != nil {
		return err
	}
	var versions []string
	for _, x := range []struct{ system, module string }{{sysRestart, "torch"}, {sysTorchFT, "torchft"}} {
		if !b.measures(x.system) {
			continue
		}
		version, why := b.o.findModule(p.python, x.module)
		if why != "" {
			p.why[x.system] = why
			continue
		}
		versions = append(versions, x.module+" "+version)
	}
	b.report.Against = strings.Join(versions, ", ")
	return nil
}

// peerRun is the result of the script.
type peerRun struct {
	Steps    int     `json:"steps"`
	Clean    float64 `json:"clean_s"`
	Seconds  float64 `json:"seconds"`
	Done     float64 `json:"done"` // share of the steps
	Hits     int     `json:"hits"`
	Missed   int     `json:"missed"`
	Restarts int     `json:"restarts"`
	Redone   int64   `json:"redone"`
	Lost     int64   `json:"lost"` // samples
	Equal    bool    `json:"equal"`
	Digest   string  `json:"digest"`
	Splits   []struct {
		Detect  float64 `json:"detect"`
		Restart float64 `json:"restart"`
		Redo    float64 `json:"redo"`
	} `json:"splits"`
	Error string `json:"error"`
}

// run runs a system of PyTorch: without failures, then with those of the turn. The first run measures the number of steps.
func (p *torchPeers) run(b *goodputRun, system string, mtbf float64) (x goodputTimes, err error) {
	dir, err := b.o.tempDir()
	if err != nil {
		return x, err
	}
	defer os.RemoveAll(dir)
	script, result := filepath.Join(dir, "goodput.py"), filepath.Join(dir, "result.json")
	if err := os.WriteFile(script, goodputScript, 0o600); err != nil {
		return x, err
	}
	var kills []string
	for _, f := range b.failures(mtbf) {
		kills = append(kills, fmt.Sprintf("%.3f:%d", f.At.Seconds(), f.Process))
	}
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.python, script, "--system", system, "--processes", strconv.Itoa(b.o.number("ranks")), "--batch",
		strconv.Itoa(b.o.number("batch")), "--seconds", strconv.Itoa(b.o.number("seconds")), "--steps", strconv.Itoa(p.steps[system]),
		"--mtbf", fmt.Sprint(mtbf), "--limit", fmt.Sprint(b.limit().Seconds()), "--kills", strings.Join(kills, ","), "--dir", dir,
		"--result", result)
	cmd.SysProcAttr = endWithParent()
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, stopWait
	if err := b.o.runCommand(cmd); err != nil {
		text := errs.String()
		return x, fmt.Errorf("bench: %s: %w: %s", system, err, text[max(0, len(text)-2000):])
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return x, err
	}
	var r peerRun
	if err := json.Unmarshal(text, &r); err != nil {
		return x, err
	}
	if r.Error != "" {
		return x, fmt.Errorf("bench: %s: %s", system, r.Error)
	}
	p.steps[system] = r.Steps
	x = goodputTimes{seconds: r.Seconds, clean: r.Clean, done: 100 * r.Done, hits: r.Hits, missed: r.Missed,
		restarts: r.Restarts, redone: r.Redone,
		lost: r.Lost, equal: r.Equal, digest: r.Digest}
	for _, s := range r.Splits {
		x.splits = append(x.splits, split{s.Detect, s.Restart, s.Redo})
	}
	return x, nil
}
