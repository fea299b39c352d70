package machine

import (
	"os"
	"testing"
	"time"
)

func TestFindMount(t *testing.T) {
	const mounts = "1:22 27 0:21 / /proc rw - proc proc rw\n6:27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\nbad\n"
	for device, want := range map[string][2]string{"254:0": {"ext4", "/dev/vda"}, "0:21": {"proc", "proc"}, "8:1": {}} {
		if filesystem, source := findMount(mounts, device); filesystem != want[0] || source != want[1] {
			t.Errorf("%s: %q, %q; want %q", device, filesystem, source, want)
		}
	}
	d := Disk{"ext4", "/dev/vda", 8 << 30, 2 << 30}
	if got := d.String(); got != "ext4 (/dev/vda, 8 GiB, 2 GiB free)" {
		t.Errorf("%s", got)
	}
	if d, err := ReadDisk(t.TempDir()); err != nil || d.Bytes <= 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := ReadDisk("/none/at/all"); err == nil {
		t.Error("a folder that does not exist has a disk")
	}
}

func TestParseLoadAverage(t *testing.T) {
	if got, ok := parseLoadAverage("8.15 8.78 6.38 11/417 25893\n"); !ok || got != [3]float64{8.15, 8.78, 6.38} {
		t.Errorf("%v, %v", got, ok)
	}
	for _, text := range []string{"", "1 2", "a b c"} {
		if _, ok := parseLoadAverage(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

func TestParseCPUTimes(t *testing.T) {
	got, ok := parseCPUTimes("cpu  100 200 300 4000 50 6 7 80 90 0\ncpu0 1 2 3\n")
	if want := (CPUTimes{6130 * time.Millisecond, 40500 * time.Millisecond, 800 * time.Millisecond}); !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu  0 0 0 0 0 0 0 0 0 0\n", "cpu  a 0 0 0 0 0 0 0 0 0\n"} {
		if _, ok := parseCPUTimes(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

// A process's time has that of its descendants, and of children that have ended.
func TestTreeTime(t *testing.T) {
	all := map[int]processTimes{}
	for _, text := range []string{
		"1 (init) S 0 1 1 0 0 0 0 0 0 0 500 0 0 0 20 0",
		"7 (a (b) c) S 1 1 1 0 0 0 0 0 0 0 10 20 30 40 20 0",
		"8 (x) R 7 1 1 0 0 0 0 0 0 0 1 0 0 0 20 0",
		"9 (y) R 8 1 1 0 0 0 0 0 0 0 0 2 0 0 20 0",
		"10 (other) R 1 1 1 0 0 0 0 0 0 0 900 0 0 0 20 0",
		"short",
	} {
		if p, ok := parseProcess(text); ok {
			all[p.id] = p
		}
	}
	if sum, ok := sumTree(all, 7); !ok || sum != 1030*time.Millisecond {
		t.Errorf("%v, %v", sum, ok)
	}
	if _, ok := sumTree(all, 99); ok {
		t.Error("a process that does not exist has a time")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	if sum, ok := KernelTime(); ok && sum < 0 || !ok && sum != 0 {
		t.Errorf("the kernel's threads: %v, %v", sum, ok)
	}
	began := ProcessTime()
	for ProcessTime()-began < 50*time.Millisecond {
		continue
	}
	if sum, ok := TreeTime(os.Getpid()); !ok || sum < 40*time.Millisecond {
		t.Errorf("%v, %v", sum, ok)
	}
}
