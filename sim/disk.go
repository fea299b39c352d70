package sim

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/store"
)

// machine stays when its host loses power. Its disks keep the bytes that were durable, and some others.
type machine struct {
	number int
	dirs   map[string]*rowlog.MemDir // by path
}

// losePower takes the power from the disks.
func (m *machine) losePower() {
	for _, d := range m.dirs {
		d.CutPower()
	}
}

// failsAfter is the most writes and syncs after which a disk that fails once does so.
const failsAfter = 200

// slowestDisk is the maximum time of a write or sync.
const slowestDisk = 30 * time.Millisecond

// dir returns a folder of a rank. Some logs fail once.
func (m *machine) dir(rank int, path string, seed uint64) *rowlog.MemDir {
	if m.dirs[path] == nil {
		r := rand.New(rand.NewPCG(seed, purposeLogs+uint64(m.number)<<32+uint64(rank)<<8))
		m.dirs[path] = rowlog.NewMemDir(r)
		if isLog := filepath.Base(path) != store.SpillFolder; isLog && r.IntN(4) == 0 {
			m.dirs[path].FailIn(1 + r.IntN(failsAfter))
		}
	}
	return m.dirs[path]
}

// storeDir is a process's Options.StoreDir.
func (p *process) storeDir(rank int, path string) (store.Dir, error) {
	return disk{p.host.machine.dir(rank, path, p.c.seed), p}, nil
}

// disk is the folder of a log in use by a process. Writes take time, and a dead process writes nothing.
type disk struct {
	*rowlog.MemDir
	p *process
}

// use takes the time of a write, and returns an error if the process is dead then.
func (d disk) use() error {
	d.p.Sleep(time.Duration(d.p.c.draw.Int64N(int64(slowestDisk))))
	if d.p.Dead {
		return errDead
	}
	return nil
}

func (d disk) Create(number uint64) (rowlog.File, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	f, err := d.MemDir.Create(number)
	return diskFile{f, d}, err
}

func (d disk) Open(number uint64) (rowlog.File, error) {
	f, err := d.MemDir.Open(number)
	return diskFile{f, d}, err
}

func (d disk) Remove(number uint64) error {
	if err := d.use(); err != nil {
		return err
	}
	return d.MemDir.Remove(number)
}

func (d disk) SetBegun(begun bool) error {
	if err := d.use(); err != nil {
		return err
	}
	return d.MemDir.SetBegun(begun)
}

func (d disk) Sync() error {
	if err := d.use(); err != nil {
		return err
	}
	return d.MemDir.Sync()
}

type diskFile struct {
	rowlog.File
	disk disk
}

// ReadAll takes time, in which other tasks run.
func (f diskFile) ReadAll(parts []rowlog.Part) error {
	return f.disk.p.Do("read rows", func() error { return f.File.ReadAll(parts) })
}

func (f diskFile) WriteAt(b []byte, at int64) error {
	if err := f.disk.use(); err != nil {
		return err
	}
	return f.File.WriteAt(b, at)
}

func (f diskFile) Truncate(size int64) error {
	if f.disk.p.Dead {
		return errDead
	}
	return f.File.Truncate(size)
}

func (f diskFile) Sync() error {
	if err := f.disk.use(); err != nil {
		return err
	}
	return f.File.Sync()
}

// fromLogs reports whether a warning says that a job restored the logs.
func fromLogs(warning string) bool { return strings.HasSuffix(warning, "from the logs of store.path") }

// storeSets draws whether a run keeps logs, and whether rows are only there.
func (s *setting) storeSets(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, purposeLogs))
	if s.stores = r.IntN(2) == 0 && !s.movesAll(); !s.stores {
		return nil
	}
	sets := []string{"store.path=/disk"}
	if r.IntN(2) == 0 {
		s.frames = 1 + r.IntN(1+r.IntN(400))
		sets = append(sets, "store.tier=file", "store.dram_bytes=1GiB")
	}
	return sets
}

// movesAll reports whether each step changes every row.
func (s *setting) movesAll() bool {
	return strings.Contains(strings.Join(s.exact, " "), "optimizer.sparse.dense=true")
}
