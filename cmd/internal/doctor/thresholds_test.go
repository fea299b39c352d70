package doctor

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
)

// The values that checks judge, and the results. Value and detail of a result need only contain the
// texts given here.
func TestThresholds(t *testing.T) {
	broken := errors.New("broken")
	const gib = 1 << 30
	addr := func(s string) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr(s)}
	}
	now := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		what          string
		got           Check
		status        Status
		amount        float64
		value, detail string
	}{
		{"all cores", cpus(8, 8, "0-7", machine.Cgroup{}), OK, 8, "8 of 8", ""},
		{"some cores", cpus(4, 4, "0-63,128-191", machine.Cgroup{CPUs: 16}), OK, 4, "4 of 128, Go uses", ""},
		{"a quota", cpus(8, 3, "", machine.Cgroup{CPUs: 2.5}), OK, 2.5, "8, Go uses 3, cgroup quota 2.5", ""},

		{"memory", memory(machine.Memory{Total: 8 * gib, Available: 2 * gib}, nil, machine.Cgroup{}), OK, 8 * gib, "8 GiB, 2 GiB available", ""},
		{"memory of a cgroup", memory(machine.Memory{Total: 8 * gib}, nil,
			machine.Cgroup{MemoryLimit: 4 * gib, MemoryLeft: gib}), OK, 4 * gib, "cgroup limit 4 GiB, 1 GiB left", ""},
		{"memory unknown", memory(machine.Memory{}, broken, machine.Cgroup{}), Fail, 0, "", "broken"},
		{"no swap", swap(machine.Memory{}, nil), OK, 0, "none", ""},
		{"swap", swap(machine.Memory{SwapTotal: gib, SwapFree: gib}, nil), OK, 0, "not in use", ""},
		{"swapping", swap(machine.Memory{SwapTotal: 2 * gib, SwapFree: gib}, nil), Warn, 0, "1 GiB of 2 GiB in use", "memory is or was short"},
		{"shm", shm(8*gib, 7*gib, nil), OK, 8 * gib, "8 GiB, 7 GiB free", ""},
		{"a container's shm", shm(64<<20, 64<<20, nil), Warn, 64 << 20, "64 MiB", "--shm-size"},
		{"no shm", shm(0, 0, broken), Absent, 0, "not found", "broken"},
		{"an arena", sharedMemory(gib, nil), OK, 0, "memfd of 1 GiB", ""},
		{"no arena", sharedMemory(0, broken), Warn, 0, "", "broken"},
		{"huge pages", hugePages("always [madvise] never", "always within_size [advise] never deny force", machine.Memory{}),
			OK, 0, "transparent: madvise, shared memory: advise", ""},
		{"no shared ones", hugePages("[always] madvise never", "always within_size advise [never] deny force",
			machine.Memory{}), OK, 0, "shared memory: never", "shmem_enabled"},
		{"none", hugePages("always madvise [never]", "", machine.Memory{}), Warn, 0, "never", "echo madvise"},
		{"reserved ones", hugePages("[always]", "", machine.Memory{HugePages: 512, HugePageBytes: 2 << 20}), OK, 0,
			"reserved: 512 of 2 MiB", "the 1 GiB of reserved"},
		{"an old kernel", hugePages("", "", machine.Memory{}), Absent, 0, "unknown", ""},

		{"open files", openFiles(1<<20, nil), OK, 0, "1048576", ""},
		{"few open files", openFiles(1024, nil), Warn, 0, "1024", "limits.conf"},
		{"unlimited", openFiles(math.MaxUint64, nil), OK, 0, "unlimited", ""},
		{"unknown", openFiles(0, broken), Absent, 0, "", "broken"},
		{"locked memory", lockedMemory(8<<20, nil, 0), OK, 0, "8 MiB", ""},
		{"locked memory with RDMA", lockedMemory(8<<20, nil, 2), Warn, 0, "8 MiB", "2 RDMA devices"},
		{"all memory with RDMA", lockedMemory(math.MaxUint64, nil, 2), OK, 0, "unlimited", ""},
		{"processes", processes(96365, nil, 0), OK, 0, "96365", ""},
		{"processes of a cgroup", processes(96365, nil, 100), Warn, 0, "cgroup limit 100", "pids.max"},

		{"a name", host{name: "n1", address: addr("10.0.0.5")}.toCheck(), OK, 0, "n1, 10.0.0.5", ""},
		{"a laptop", host{name: "n1", address: addr("127.0.0.1")}.toCheck(), Warn, 0, "only [127.0.1.1", "/etc/hosts"},
		{"loopback in a job of one node", host{name: "n1", address: addr("::1"), nodes: 1}.toCheck(), Warn, 0, "", ""},
		{"loopback in a job of two", host{name: "n1", address: addr("::1"), nodes: 2}.toCheck(), Fail, 0, "", ""},
		{"no such name", host{name: "n1", err: broken}.toCheck(), Warn, 0, "n1, no address", "broken"},
		{"another's address", host{name: "n1", address: addr("10.0.0.5"), bind: broken}.toCheck(), Warn, 0, "10.0.0.5", "broken"},
		{"a clock", clock(now, now.Add(-time.Hour), 1500*time.Microsecond, nil), OK, 0, "2025-06-01T12:00:00Z, synchronised within 1.5ms", ""},
		{"a clock of its own", clock(now, time.Time{}, 0, errUnsynchronised{}), Warn, 0, "", "NTP"},
		{"a clock of long ago", clock(now, now.Add(time.Hour), 0, nil), Fail, 0, "", "2025-06-01T13:00:00Z"},

		{"a folder", folder{path: "/out", total: 9 * gib, free: 8 * gib, tried: true}.toCheck(), OK, 8 * gib,
			"8 GiB of 9 GiB free in /out, writable, O_DIRECT works", ""},
		{"a folder that was only measured", folder{path: ".", total: 9 * gib, free: 8 * gib}.toCheck(), OK, 8 * gib, "free in .", ""},
		{"a full folder", folder{path: "/out", total: 9 * gib, free: 8, tried: true}.toCheck(), Warn, 8, "", "less than 1 GiB"},
		{"a folder of others", folder{path: "/out", tried: true, write: broken}.toCheck(), Fail, 0, "", "broken"},
		{"no O_DIRECT", folder{path: "/out", free: 2 * gib, tried: true, direct: broken}.toCheck(), Warn, 2 * gib, "", "page cache"},
		{"io_uring", ring(nil), OK, 0, "works, up to 128 reads", ""},
		{"no io_uring", ring(broken), Warn, 0, "refused", "broken; rows on a disk are read by preads"},
		{"no file system", folder{path: "/out", err: broken}.toCheck(), Fail, 0, "/out", "broken"},
	} {
		if e.got.Status != e.status || e.got.amount != e.amount || !strings.Contains(e.got.Value, e.value) ||
			!strings.Contains(e.got.Detail, e.detail) ||
			e.status == OK && e.detail == "" && e.got.Detail != "" {
			t.Errorf("%s: %+v, want %s, %v, %q, %q", e.what, e.got, e.status, e.amount, e.value, e.detail)
		}
	}
}

func TestGPUs(t *testing.T) {
	well := gpu{name: "H100", total: 80 << 30, free: 79 << 30, capability: "9.0", clocksReasons: 0x5} // idle, at its power cap
	with := func(change func(*gpu)) gpu {
		g := well
		change(&g)
		return g
	}
	d := driver{version: "550.1", gpus: []gpu{
		well,
		with(func(g *gpu) { g.clocksReasons = 0x48 }),
		with(func(g *gpu) { g.remapPending = true }),
		with(func(g *gpu) { g.uncorrected = 3 }),
		with(func(g *gpu) { g.remapFailed = true }),
		{problem: "lost"},
	}}
	want := []Check{
		{Name: "", Status: OK, Value: "6, driver 550.1", amount: 3},
		{Name: "gpu0", Status: OK, Value: "H100, 80 GiB, 79 GiB free, compute capability 9.0"},
		{Name: "gpu1", Status: Warn, Detail: "hardware slowdown, hardware thermal slowdown"},
		{Name: "gpu2", Status: Warn, Detail: "waiting to be remapped"},
		{Name: "gpu3", Status: Fail, Detail: "3 uncorrected ECC errors"},
		{Name: "gpu4", Status: Fail, Detail: "could not be remapped"},
		{Name: "gpu5", Status: Fail, Value: "cannot be queried", Detail: "lost"},
	}
	got := d.toChecks()
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		g := got[i]
		if g.Name != w.Name || g.Status != w.Status || g.amount != w.amount || !strings.Contains(g.Value, w.Value) ||
			!strings.Contains(g.Detail, w.Detail) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	for _, e := range []struct {
		d    driver
		want Status
	}{{driver{problem: "no driver"}, Absent}, {driver{problem: "mismatch", broken: true}, Fail}, {driver{version: "550.1"}, Absent}} {
		if got := e.d.toChecks(); len(got) != 1 || got[0].Status != e.want || got[0].amount != 0 {
			t.Errorf("%+v: %+v", e.d, got)
		}
	}
}

func TestCountList(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-7": 8, "0-3,8-11,16": 9, "": 0, "x": 0, "3-1": 0} {
		if n, ok := countList(list); n != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", list, n, ok, want)
		}
	}
}

func TestSlurmJob(t *testing.T) {
	for _, e := range []struct{ id, node, want string }{{"", "", ""}, {"", "n1", ""}, {"7", "", "in job 7"},
		{"7", "n1", "in job 7 on node n1"}} {
		got := slurmJob(func(name string) string {
			return map[string]string{"SLURM_JOB_ID": e.id, "SLURMD_NODENAME": e.node}[name]
		})
		if got != e.want {
			t.Errorf("%+v: %q", e, got)
		}
	}
}
