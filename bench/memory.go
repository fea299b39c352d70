package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/directio"
)

var memoryBench = Bench{
	Name: "memory",
	Doc:  "speed of memory, page cache and disk: GB/s and ns of reads and writes",
	Detail: "The columns of OpenEmbedding's table I (ICDE 2023). Rates are those of sequential copies, by all threads together; a copy to " +
		"memory counts the " +
		"bytes that are written. Latencies are those of one access at a time at a random place: in memory of a chain of dependent words, each " +
		"in a cache line of " +
		"its own; of files of a pread or pwrite. The disk is read and written past the page cache if the file system has O_DIRECT; else its " +
		"lines are absent. " +
		"The host of a virtual disk may cache it.",
	Settings: []Setting{
		number("mib", "256", 1, 1<<20, "memory of each array, and size of the file, in MiB").orTiny("1"),
		number("block", "1048576", 4096, 1<<26, "bytes of a sequential access to files, a multiple of 4096"),
		number("random", "4096", 4096, 1<<20, "bytes of a random access to files, a multiple of 4096"),
		number("accesses", "1000", 1, 1<<24, "random accesses to the disk in a turn; to the page cache 100, to memory 1000 times as "+
			"many").orTiny("5"),
		threadsSetting,
		dirSetting,
	},
	measure: runMemory,
}

// memoryRun is one run of the benchmark.
type memoryRun struct {
	o       Options
	bytes   int
	a, b    []byte
	chain   []uint64 // each element is the place of the next one
	files   [2]*os.File
	rnd     *rand.Rand
	threads int
	block   int
	small   int
	sink    uint64
}

// The media.
var media = []string{"DRAM", "page cache", "disk"}

// memoryCell is one measurement.
type memoryCell struct {
	medium, op, order string
	value             float64 // GB/s, or ns
}

func runMemory(out io.Writer, o Options) (_ *Report, err error) {
	m := &memoryRun{o: o, bytes: o.number("mib") << 20, rnd: rand.New(rand.NewPCG(1, 2)), threads: o.number("threads"),
		block: o.number("block"), small: o.number("random")}
	for _, n := range []string{"block", "random"} {
		if o.number(n)%4096 != 0 || o.number(n) > m.bytes {
			return nil, settingError("%s=%d: want a multiple of 4096, at most the size of the file", n, o.number(n))
		}
	}
	if m.threads == 0 {
		m.threads = runtime.GOMAXPROCS(0)
	}
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m.prepareMemory()
	defer func() {
		for _, f := range m.files {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	if err := m.openFiles(dir); err != nil {
		return nil, err
	}
	var turns [][]memoryCell
	for o.moreTurns(len(turns), o.repeats()) {
		cells, err := m.measureAll()
		if err != nil {
			return nil, err
		}
		turns = append(turns, cells)
	}
	r := o.newReport("none")
	r.writeHeader(out)
	fmt.Fprintf(out, "\n%d MiB, %d threads; random accesses to files of %d bytes\n", m.bytes>>20, m.threads, m.small)
	if !directio.Enabled(m.files[1]) {
		fmt.Fprintln(out, "the file system has no O_DIRECT: the disk is not measured")
	}
	t := table(out)
	fmt.Fprintln(t, "medium\taccess\torder\tmedian\tleast\tgreatest\t\t")
	for i, c := range turns[0] {
		var values []float64
		for _, turn := range turns {
			values = append(values, turn[i].value)
		}
		name, unit := "rate", "GB/s"
		if c.order == "random" {
			name, unit = "latency", "ns"
		}
		first := len(r.Figures)
		f := r.addFigure(name, unit, values...)
		r.setCase(first, map[string]string{"medium": c.medium, "op": c.op, "order": c.order})
		fmt.Fprintf(t, "%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%s\t\n", c.medium, c.op, c.order, f.Median, f.Min, f.Max, unit)
	}
	return r, t.Flush()
}

const lineBytes = 64

// prepareMemory touches the arrays, and makes a random cycle through cache lines.
func (m *memoryRun) prepareMemory() {
	m.a, m.b = directio.Aligned(m.bytes), directio.Aligned(m.bytes)
	for i := 0; i+8 <= len(m.a); i += 8 {
		binary.LittleEndian.PutUint64(m.a[i:], m.rnd.Uint64())
	}
	copy(m.b, m.a)
	lines := m.bytes / lineBytes
	m.chain = make([]uint64, m.bytes/8)
	order := m.rnd.Perm(lines)
	for i, line := range order {
		m.chain[line*lineBytes/8] = uint64(order[(i+1)%lines] * lineBytes / 8)
	}
}

// openFiles writes the file, and opens it through the page cache and past it.
func (m *memoryRun) openFiles(dir string) (err error) {
	name := filepath.Join(dir, "file")
	if m.files[0], err = os.Create(name); err != nil {
		return err
	}
	if _, err = m.files[0].Write(m.a); err != nil {
		return err
	}
	if err = m.files[0].Sync(); err != nil {
		return err
	}
	direct := filepath.Join(dir, "direct")
	if err = os.WriteFile(direct, m.a, 0o600); err != nil {
		return err
	}
	m.files[1], err = directio.OpenFile(direct, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return m.files[1].Sync()
}

// measureAll measures every cell once.
func (m *memoryRun) measureAll() (cells []memoryCell, err error) {
	for i, medium := range media {
		if i == 2 && !directio.Enabled(m.files[1]) {
			break
		}
		for _, op := range []string{"read", "write"} {
			m.o.mustRun()
			gb, ns := 0.0, 0.0
			switch {
			case i > 0:
				gb, err = m.moveBlocks(m.files[i-1], op)
				if err == nil {
					ns, err = m.accessFile(m.files[i-1], op, m.o.number("accesses")*[]int{100, 1}[i-1])
				}
			case op == "read":
				gb, ns = m.readMemory(), m.chaseChain()
			default:
				gb, ns = m.writeMemory(), m.storeRandomly()
			}
			if err != nil {
				return nil, err
			}
			cells = append(cells, memoryCell{medium, op, "sequential", gb}, memoryCell{medium, op, "random", ns})
		}
	}
	return cells, nil
}

// perSecond returns the GB/s of all threads, of which each does a part of the bytes.
func (m *memoryRun) perSecond(do func(thread, from, to int)) float64 {
	lines := m.bytes / lineBytes
	began := time.Now()
	together(m.threads, func(i int) { do(i, i*lines/m.threads*lineBytes, (i+1)*lines/m.threads*lineBytes) })
	return float64(m.bytes) / 1e9 / time.Since(began).Seconds()
}

// readMemory sums up words.
func (m *memoryRun) readMemory() float64 {
	sums := make([]uint64, m.threads)
	gb := m.perSecond(func(thread, from, to int) {
		var s [4]uint64
		p := m.a[from:to]
		for ; len(p) >= lineBytes; p = p[lineBytes:] {
			s[0] += binary.LittleEndian.Uint64(p) ^ binary.LittleEndian.Uint64(p[32:])
			s[1] += binary.LittleEndian.Uint64(p[8:]) ^ binary.LittleEndian.Uint64(p[40:])
			s[2] += binary.LittleEndian.Uint64(p[16:]) ^ binary.LittleEndian.Uint64(p[48:])
			s[3] += binary.LittleEndian.Uint64(p[24:]) ^ binary.LittleEndian.Uint64(p[56:])
		}
		sums[thread] = s[0] + s[1] + s[2] + s[3]
	})
	for _, s := range sums {
		m.sink += s
	}
	return gb
}

// writeMemory fills an array from a part that stays in a cache.
func (m *memoryRun) writeMemory() float64 {
	const part = 8 << 10
	return m.perSecond(func(_, from, to int) {
		for at := from; at < to; at += part {
			copy(m.b[at:min(at+part, to)], m.a[:part])
		}
	})
}

// chaseChain returns the ns of a read whose place is the result of the read before.
func (m *memoryRun) chaseChain() float64 {
	n, at := m.randomOfMemory(), uint64(0)
	began := time.Now()
	for range n {
		at = m.chain[at]
	}
	ns := float64(time.Since(began).Nanoseconds()) / float64(n)
	m.sink += at
	return ns
}

// storeRandomly returns the ns of a write at a random place. Writes do not depend on each other, so a processor overlaps them.
func (m *memoryRun) storeRandomly() float64 {
	n, words := m.randomOfMemory(), uint64(m.bytes/8)
	state := uint64(1)
	began := time.Now()
	for range n {
		state = state*6364136223846793005 + 1442695040888963407
		at := int(state>>20%words) * 8
		binary.LittleEndian.PutUint64(m.b[at:], state)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

func (m *memoryRun) randomOfMemory() int { return 1000 * m.o.number("accesses") }

// moveBlocks reads or writes a file in order. Writes end when the disk has them, unless they go to the page cache.
func (m *memoryRun) moveBlocks(f *os.File, op string) (float64, error) {
	began := time.Now()
	for at := 0; at < m.bytes; at += m.block {
		n := min(m.block, m.bytes-at)
		if err := m.access(f, op, m.b[at:at+n], at); err != nil {
			return 0, err
		}
	}
	return float64(m.bytes) / 1e9 / time.Since(began).Seconds(), nil
}

// accessFile returns the ns of an access at a random place.
func (m *memoryRun) accessFile(f *os.File, op string, n int) (float64, error) {
	places := m.bytes / m.small
	began := time.Now()
	for range n {
		at := m.rnd.IntN(places) * m.small
		if err := m.access(f, op, m.b[at:at+m.small], at); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n), nil
}

func (m *memoryRun) access(f *os.File, op string, p []byte, at int) error {
	return directio.Do(f, func() (err error) {
		if op == "read" {
			_, err = f.ReadAt(p, int64(at))
		} else {
			_, err = f.WriteAt(p, int64(at))
		}
		return err
	})
}
