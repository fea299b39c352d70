package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Cgroup is what control groups allow this process: of each limit the tightest,
// be it of its own group or of one above. 0: no limit.
type Cgroup struct {
	MemoryLimit int64   // bytes
	MemoryLeft  int64   // bytes that may still be taken, where there is a limit
	CPUs        float64 // CPU time, in cores
	Tasks       int64   // processes and threads
}

// ReadCgroup reads the limits of this process's groups, of version 1 or 2.
func ReadCgroup() Cgroup {
	self, _ := os.ReadFile("/proc/self/cgroup") // where it cannot be read the root may still have limits: a container's
	return readCgroup(os.DirFS("/sys/fs/cgroup"), string(self))
}

func readCgroup(files fs.FS, self string) (c Cgroup) {
	for _, dir := range groups(self) {
		g := group{files, dir}
		if limit, left := g.memory(); limit > 0 {
			if c.MemoryLimit == 0 {
				c.MemoryLimit, c.MemoryLeft = limit, left
			}
			c.MemoryLimit, c.MemoryLeft = min(c.MemoryLimit, limit), min(c.MemoryLeft, left)
		}
		if n := g.cpus(); n > 0 && (c.CPUs == 0 || n < c.CPUs) {
			c.CPUs = n
		}
		if n, ok := g.number("pids.max"); ok && (c.Tasks == 0 || n < c.Tasks) {
			c.Tasks = n
		}
	}
	return c
}

// groups are the folders of the groups that /proc/self/cgroup names, and of those
// above. Its lines are "0::/path" in version 2, "4:memory:/path" in version 1. In a
// container paths may be those of the host, which are not there: the roots are.
func groups(self string) []string {
	dirs := []string{"."}
	for line := range strings.Lines(self) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(controllers, "name=") {
			continue
		}
		for _, hierarchy := range strings.Split(controllers, ",") {
			for p := path.Clean("/" + at); ; p = path.Dir(p) {
				if dir := strings.TrimPrefix(path.Join("/", hierarchy, p), "/"); dir != "" {
					dirs = append(dirs, dir)
				}
				if p == "/" {
					break
				}
			}
		}
	}
	return dirs
}

// group is the folder of one control group.
type group struct {
	files fs.FS
	dir   string
}

// memory is the limit and what is left of it; 0 without one. Page cache counts as
// used but is given back on demand.
func (g group) memory() (limit, left int64) {
	for _, v := range []struct{ limit, used, inactive string }{
		{"memory.max", "memory.current", "inactive_file"},
		{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	} {
		limit, limited := g.number(v.limit)
		used, ok := g.number(v.used)
		if limited && ok {
			return limit, max(0, limit-used+g.stat(v.inactive))
		}
	}
	return 0, 0
}

func (g group) stat(name string) int64 {
	for line := range strings.Lines(g.text("memory.stat")) {
		if v, found := strings.CutPrefix(line, name+" "); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// cpus is the quota in cores; 0 without one.
func (g group) cpus() float64 {
	quota, period, ok := strings.Cut(g.text("cpu.max"), " ")
	if !ok {
		quota, period = g.text("cpu.cfs_quota_us"), g.text("cpu.cfs_period_us")
	}
	q, qerr := strconv.ParseFloat(quota, 64)
	p, perr := strconv.ParseFloat(period, 64)
	if qerr != nil || perr != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// unlimited is what version 1 writes for no limit, about; version 2 writes "max".
const unlimited = 1 << 60

func (g group) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(g.text(name), 10, 64)
	return n, err == nil && n < unlimited
}

func (g group) text(name string) string {
	b, _ := fs.ReadFile(g.files, path.Join(g.dir, name)) // "" is no limit
	return strings.TrimSpace(string(b))
}
