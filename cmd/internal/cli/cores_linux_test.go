package cli

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/control"
	"golang.org/x/sys/unix"
)

// Processes of the same machine share the cores to which they are bound.
func TestShareOfCoresOfAWorld(t *testing.T) {
	if runtime.NumCPU() < 2 || runtime.GOMAXPROCS(0) < runtime.NumCPU() {
		t.Skip("needs two cores, and no quota or GOMAXPROCS below them: a core is taken from one of two processes")
	}
	var own, last unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	for cpu := 64*len(own) - 1; last.Count() == 0; cpu-- {
		if own.IsSet(cpu) {
			last.Set(cpu)
		}
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &last); err != nil {
		t.Fatal(err)
	}
	all := float64(runtime.NumCPU())
	w := &launcher.World{Processes: []control.Process{{Ranks: []int{0}, Host: "a", PID: os.Getpid()},
		{Ranks: []int{1}, Host: "a", PID: cmd.Process.Pid}, {Ranks: []int{2}, Host: "b", PID: 1}, {Host: "a", PID: 1}}}
	if got := shareOfCores(w); got != all-0.5 {
		t.Errorf("a share of %v of %v cores, want %v", got, all, all-0.5)
	}
	w.Processes[1].PID = 0 // of another kernel's view
	if got := shareOfCores(w); got != all/2 || got != env.ShareOfCores([]int{0}) {
		t.Errorf("a share of %v of %v cores, want half of them", got, all)
	}
}
