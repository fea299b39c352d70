package machine

import (
	"io/fs"
	"path"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParseMemory(t *testing.T) {
	for _, e := range []struct {
		text string
		want Memory
		ok   bool
	}{
		{"MemTotal:       32619660 kB\nMemFree: 1 kB\nMemAvailable:   16 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\nHugePages_Total:     512\nHugepagesize:    2048 kB\n",
			Memory{Total: 32619660 << 10, Available: 16 << 10, SwapTotal: 8 << 10, SwapFree: 4 << 10, HugePages: 512, HugePageBytes: 2 << 20}, true},
		{"MemTotal: 4 kB\n", Memory{Total: 4096}, true},
		{"MemTotal: many kB\n", Memory{}, false},
		{"", Memory{}, false},
	} {
		if got, err := parseMemory(e.text); got != e.want || (err == nil) != e.ok {
			t.Errorf("%q: %+v, %v; want %+v", e.text, got, err, e.want)
		}
	}
}

func TestCgroup(t *testing.T) {
	const none = "9223372036854771712"
	for _, e := range []struct {
		what, self string
		files      map[string]string
		want       Cgroup
	}{
		{"nothing to read", "", nil, Cgroup{}},
		{"a container's root", "0::/\n", map[string]string{"memory.max": "1000", "memory.current": "400",
			"memory.stat": "anon 1\ninactive_file 100\n", "cpu.max": "150000 100000", "pids.max": "max"},
			Cgroup{MemoryLimit: 1000, MemoryLeft: 700, CPUs: 1.5}},
		{"a job's step: the tightest is above", "0::/system.slice/job_1/step_0\n", map[string]string{
			"system.slice/job_1/memory.max": "800", "system.slice/job_1/memory.current": "500", "system.slice/job_1/pids.max": "90",
			"system.slice/job_1/step_0/memory.max": "max", "system.slice/job_1/step_0/memory.current": "500",
			"system.slice/job_1/step_0/cpu.max": "max 100000"},
			Cgroup{MemoryLimit: 800, MemoryLeft: 300, Tasks: 90}},
		{"version 1", "4:memory:/slurm/job_1\n1:cpu,cpuacct:/slurm\n9:name=systemd:/\n", map[string]string{
			"memory/memory.limit_in_bytes": none, "memory/memory.usage_in_bytes": "5",
			"memory/slurm/job_1/memory.limit_in_bytes": "600", "memory/slurm/job_1/memory.usage_in_bytes": "700",
			"memory/slurm/job_1/memory.stat": "inactive_file 9\ntotal_inactive_file 50\n",
			"cpu/slurm/cpu.cfs_quota_us":     "400000", "cpu/slurm/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_quota_us": "-1",
			"cpu/cpu.cfs_period_us": "100000"},
			Cgroup{MemoryLimit: 600, MemoryLeft: 0, CPUs: 4}},
		{"a path of the host", "0::/../../host/x\n", map[string]string{"memory.max": "10", "memory.current": "1"},
			Cgroup{MemoryLimit: 10, MemoryLeft: 9}},
	} {
		files := fstest.MapFS{}
		for name, text := range e.files {
			files[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		if got := readCgroup(files, e.self); !reflect.DeepEqual(got, e.want) {
			t.Errorf("%s: %+v, want %+v", e.what, got, e.want)
		}
	}
}

// opened counts the files that are opened, and keeps the names of those that are not memory's.
type opened struct {
	fs.FS
	n      int
	others []string
}

func (o *opened) Open(name string) (fs.File, error) {
	if o.n++; !strings.Contains(path.Base(name), "memory.") {
		o.others = append(o.others, name)
	}
	return o.FS.Open(name)
}

// Jobs read the memory limit when they start. With version 1 that is two or three files of
// each group that limits memory, and none of the other hierarchies.
func TestMemoryLimitReadsFilesOfMemory(t *testing.T) {
	files := &opened{FS: fstest.MapFS{
		"memory/a/memory.limit_in_bytes": {Data: []byte("600\n")},
		"memory/a/memory.usage_in_bytes": {Data: []byte("500\n")},
	}}
	self := "4:memory:/a\n2:cpu,cpuacct:/x/y/z\n3:pids:/x/y/z\n1:devices:/x/y/z\n"
	if limit, left := readMemoryLimit(files, self); limit != 600 || left != 100 {
		t.Errorf("limit %d, %d left; want 600, 100", limit, left)
	}
	if files.n > 10 || len(files.others) > 0 {
		t.Errorf("%d files opened, %q not of memory; want at most 10", files.n, files.others)
	}
}
