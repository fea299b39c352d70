package env

import (
	"math"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A core is shared with the processes that may run on it, and with no others.
func TestShareOfCores(t *testing.T) {
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	all := own.Count()
	first, rest := unix.CPUSet{}, own
	for cpu := 0; first.Count() == 0; cpu++ {
		if own.IsSet(cpu) {
			first.Set(cpu)
			rest.Clear(cpu)
		}
	}
	begin := func(on *unix.CPUSet) int {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		if on.Count() > 0 {
			if err := unix.SchedSetaffinity(cmd.Process.Pid, on); err != nil {
				t.Fatal(err)
			}
		}
		return cmd.Process.Pid
	}
	a := begin(&first)
	for _, c := range []struct {
		name   string
		others []int
		want   float64
	}{
		{"alone", nil, float64(all)},
		{"one with the first core", []int{a}, float64(all) - 0.5},
		{"two with the first core", []int{a, a}, float64(all) - 2./3},
		{"one that cannot be seen", []int{1 << 30}, float64(all) / 2},
		{"one without an id", []int{0}, float64(all) / 2},
	} {
		if got := ShareOfCores(c.others); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v of %d cores, want %v", c.name, got, all, c.want)
		}
	}
	if all > 1 {
		if got, want := ShareOfCores([]int{a, begin(&rest)}), float64(all)/2; math.Abs(got-want) > 1e-6 {
			t.Errorf("with one on the first core and one on the others: %v of %d cores, want %v", got, all, want)
		}
	}
}
