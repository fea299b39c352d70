package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Cgroup holds the limits of this process's control groups: for each resource the tightest
// limit of its own group and those above. 0 is no limit.
type Cgroup struct {
	MemoryLimit int64   // bytes
	MemoryLeft  int64   // bytes that may still be used, if there is a limit
	CPUs        float64 // CPU time, in cores
	Tasks       int64   // processes and threads
}

// ReadCgroup reads the limits of this process's groups, of version 1 or 2.
func ReadCgroup() Cgroup {
	self, _ := os.ReadFile("/proc/self/cgroup") // if it cannot be read, the root may still have a container's limits
	return readCgroup(os.DirFS("/sys/fs/cgroup"), string(self))
}

func readCgroup(files fs.FS, self string) (c Cgroup) {
	c.MemoryLimit, c.MemoryLeft = readMemoryLimit(files, self)
	for _, dir := range groups(self, "") {
		g := group{files, dir}
		if n := g.cpuQuota(); n > 0 && (c.CPUs == 0 || n < c.CPUs) {
			c.CPUs = n
		}
		if n, ok := g.readNumber("pids.max"); ok && (c.Tasks == 0 || n < c.Tasks) {
			c.Tasks = n
		}
	}
	return c
}

// memoryLeft returns the bytes that this process's groups may still use. limited is false if
// they have no limit. Jobs ask when they start, so it reads the files of memory alone.
func memoryLeft() (left int64, limited bool) {
	self, _ := os.ReadFile("/proc/self/cgroup") // as in ReadCgroup
	limit, left := readMemoryLimit(os.DirFS("/sys/fs/cgroup"), string(self))
	return left, limit > 0
}

// readMemoryLimit returns the tightest limit, and the fewest bytes left; 0 if there is no limit.
func readMemoryLimit(files fs.FS, self string) (limit, left int64) {
	for _, dir := range groups(self, "memory") {
		l, n := group{files, dir}.memoryLimit()
		switch {
		case l == 0:
		case limit == 0:
			limit, left = l, n
		default:
			limit, left = min(limit, l), min(left, n)
		}
	}
	return limit, left
}

// groups returns the folders of the groups that /proc/self/cgroup names, and of those
// above: all, or those with the files of one controller. Its lines are "0::/path" in
// version 2, "4:memory:/path" in version 1. In a container the paths may be those of the
// host, which do not exist there; the roots do.
func groups(self, controller string) []string {
	dirs := []string{"."}
	for line := range strings.Lines(self) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(controllers, "name=") {
			continue
		}
		for _, hierarchy := range strings.Split(controllers, ",") {
			if controller != "" && hierarchy != "" && hierarchy != controller {
				continue
			}
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

// memoryLimit returns the limit and the bytes left; 0 if there is none. Page cache counts
// as used, but the kernel reclaims it on demand.
func (g group) memoryLimit() (limit, left int64) {
	for _, v := range []struct{ limit, used, inactive string }{
		{"memory.max", "memory.current", "inactive_file"},
		{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	} {
		limit, limited := g.readNumber(v.limit)
		if !limited {
			continue
		}
		if used, ok := g.readNumber(v.used); ok {
			return limit, max(0, limit-used+g.readStat(v.inactive))
		}
	}
	return 0, 0
}

func (g group) readStat(name string) int64 {
	for line := range strings.Lines(g.readText("memory.stat")) {
		if v, found := strings.CutPrefix(line, name+" "); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// cpuQuota returns the quota in cores; 0 if there is none.
func (g group) cpuQuota() float64 {
	quota, period, ok := strings.Cut(g.readText("cpu.max"), " ")
	if !ok {
		quota, period = g.readText("cpu.cfs_quota_us"), g.readText("cpu.cfs_period_us")
	}
	q, qerr := strconv.ParseFloat(quota, 64)
	p, perr := strconv.ParseFloat(period, 64)
	if qerr != nil || perr != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// unlimited is about the number that version 1 writes for no limit. Version 2 writes "max".
const unlimited = 1 << 60

func (g group) readNumber(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(g.readText(name), 10, 64)
	return n, err == nil && n < unlimited
}

func (g group) readText(name string) string {
	b, _ := fs.ReadFile(g.files, path.Join(g.dir, name)) // "" is no limit
	return strings.TrimSpace(string(b))
}
