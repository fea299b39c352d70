package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
)

var rowReadsBench = Bench{
	Name: "rowreads",
	Doc:  "random reads of a file by io_uring and by preads, and of the rows of a log",
	Detail: "Lists of reads at random multiples of their length, by turns: of a file by io_uring and by preads, and of as many rows of a log of the same " +
		"size, which are checked against their sums. All files are read from the disk, if their file system has O_DIRECT. CPU time is that of the process, " +
		"the kernel's on its behalf included. The host of a virtual disk may cache it.",
	Settings: []Setting{
		number("mib", "2048", 1, 1<<24, "size of the file and of each log, in MiB").orTiny("2"),
		numbers("bytes", "512,4096", 16, 1<<20, "lengths of the reads, and of a row with its sum"),
		number("list", "16384", 1, 1<<24, "reads of a list, as the rows of a step").orTiny("100"),
		number("lists", "8", 1, 1<<20, "lists of a turn").orTiny("1"),
		number("pairs", "", 1, 1000, "turns of each way. Default: --repeats").orTiny("2"),
		dirSetting,
	},
	measure: runRowReads,
}

// rowReads is a run of the benchmark.
type rowReads struct {
	o    Options
	r    *Report
	dir  string
	size int64
	rnd  *rand.Rand
}

// rowReadsWay is a way to read.
type rowReadsWay struct {
	name  string
	draw  func()
	read  func() error
	check func() error
}

func runRowReads(out io.Writer, o Options) (_ *Report, err error) {
	b := &rowReads{o: o, r: o.newReport("none"), size: int64(o.number("mib")) << 20, rnd: rand.New(rand.NewPCG(1, 2))}
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	var dirs [2]*rowlog.OSDir
	var files [2]rowlog.File
	for i := range dirs {
		if dirs[i], err = b.openFolder("file", rowlog.Access{NoRing: i == 1}); err != nil {
			return nil, err
		}
		defer dirs[i].Close()
		if i == 0 {
			if err := writeStamps(dirs[i], b.size); err != nil {
				return nil, err
			}
		}
		if files[i], err = dirs[i].Open(1); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
	}
	b.r.writeHeader(out)
	pairs := o.number("pairs")
	if pairs == 0 {
		pairs = o.repeats()
	}
	fmt.Fprintf(out, "\n%.1f GB; lists of %d reads, %d turns of each way; %s; %s\n", float64(b.size)/1e9, o.number("list"), pairs,
		dirs[0].Way(), dirs[1].Way())
	t := table(out)
	fmt.Fprintln(t, "bytes\t\treads/s\tleast\tgreatest\tcores\tCPU us/read\treads/s of io_uring's\tinterval\tCPU\tinterval\t")
	for _, bytes := range o.numbers("bytes") {
		if err := b.measureLength(t, bytes, pairs, files); err != nil {
			return nil, err
		}
	}
	return b.r, t.Flush()
}

func (b *rowReads) openFolder(name string, a rowlog.Access) (*rowlog.OSDir, error) {
	return rowlog.OpenDir(env.Real(), filepath.Join(b.dir, name), a)
}

// stampUnit is the distance of the stamps in the file. Each is its own offset.
const stampUnit = 512

// writeStamps writes the file.
func writeStamps(d *rowlog.OSDir, size int64) (err error) {
	f, err := d.Create(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := directio.Aligned(1 << 20)
	for at := int64(0); at < size; at += int64(len(block)) {
		for i := 0; i < len(block); i += stampUnit {
			binary.LittleEndian.PutUint64(block[i:], uint64(at)+uint64(i))
		}
		if err := f.WriteAt(block, at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// measureLength measures reads of one length.
func (b *rowReads) measureLength(t io.Writer, bytes, pairs int, files [2]rowlog.File) error {
	d, err := b.openFolder(fmt.Sprintf("log-%d", bytes), rowlog.Access{})
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := b.writeLog(d, bytes-4)
	if err != nil {
		return err
	}
	defer l.Close()
	ways := []rowReadsWay{b.readsFile("io_uring", files[0], bytes), b.readsFile("preads", files[1], bytes), b.readsLog(l, bytes-4)}
	rates, cpu := make([][]float64, len(ways)), make([][]float64, len(ways))
	for turn := 0; b.o.moreTurns(turn, pairs); turn++ {
		for i := range ways {
			which := (turn + i) % len(ways)
			w := ways[which]
			var wall, busy time.Duration
			for range b.o.number("lists") {
				w.draw()
				began, used := time.Now(), cpuTime()
				err := w.read()
				wall, busy = wall+time.Since(began), busy+cpuTime()-used
				if err = errors.Join(err, w.check()); err != nil {
					return err
				}
			}
			reads := float64(b.o.number("list") * b.o.number("lists"))
			rates[which] = append(rates[which], reads/wall.Seconds())
			cpu[which] = append(cpu[which], float64(busy.Nanoseconds())/1e3/reads)
		}
	}
	for i, w := range ways {
		b.addWay(t, bytes, w.name, [2][]float64{rates[i], cpu[i]}, [2][]float64{rates[0], cpu[0]})
	}
	return nil
}

// readsFile reads parts of a file of stamps.
func (b *rowReads) readsFile(name string, f rowlog.File, bytes int) rowReadsWay {
	parts, memory := make([]rowlog.Part, b.o.number("list")), make([]byte, b.o.number("list")*bytes)
	return rowReadsWay{name, func() {
		for k := range parts {
			parts[k] = rowlog.Part{At: b.rnd.Int64N(b.size/int64(bytes)) * int64(bytes), Bytes: memory[k*bytes : (k+1)*bytes]}
		}
	}, func() error { return f.ReadAll(parts) }, func() error {
		for _, p := range parts {
			at := (p.At + stampUnit - 1) / stampUnit * stampUnit
			if i := at - p.At; i+8 <= int64(len(p.Bytes)) && binary.LittleEndian.Uint64(p.Bytes[i:]) != uint64(at) {
				return fmt.Errorf("bench: %s: %d bytes at offset %d are wrong", name, len(p.Bytes), p.At)
			}
		}
		return nil
	}}
}

// epochBytes is the size of an epoch of the log.
const epochBytes = 64 << 20

// writeLog writes a log whose rows begin with their slots.
func (b *rowReads) writeLog(d *rowlog.OSDir, rowBytes int) (*rowlog.Log, error) {
	n := b.size / int64(rowBytes+4)
	l, err := rowlog.Open(rowlog.Options{Dir: d, Owners: 1, RowBytes: rowBytes, Slots: n})
	if err != nil {
		return nil, err
	}
	var slots []int32
	rows := make([]byte, 0, epochBytes)
	for slot := range n {
		rows = rows[:len(rows)+rowBytes]
		binary.LittleEndian.PutUint64(rows[len(rows)-rowBytes:], uint64(slot))
		if slots = append(slots, int32(slot)); slot == n-1 || len(rows)+rowBytes > epochBytes {
			if err := l.Append(slot+1, slots, rows, nil); err != nil {
				l.Close()
				return nil, err
			}
			slots, rows = slots[:0], rows[:0]
		}
	}
	return l, l.Sync()
}

// readsLog reads rows of a log.
func (b *rowReads) readsLog(l *rowlog.Log, rowBytes int) rowReadsWay {
	slots, rows := make([]int32, b.o.number("list")), make([]byte, b.o.number("list")*rowBytes)
	return rowReadsWay{"rows of a log, io_uring", func() {
		for k := range slots {
			slots[k] = int32(b.rnd.Int64N(b.size / int64(rowBytes+4)))
		}
	}, func() error { return l.Read(slots, rows) }, func() error {
		for k, slot := range slots {
			if got := binary.LittleEndian.Uint64(rows[k*rowBytes:]); got != uint64(slot) {
				return fmt.Errorf("bench: the row of slot %d is that of slot %d", slot, got)
			}
		}
		return nil
	}}
}

// addWay reports the reads per second and the CPU time of a way, and their ratios to the first way's in the same turns.
func (b *rowReads) addWay(t io.Writer, bytes int, way string, found, first [2][]float64) {
	name := fmt.Sprintf("%d bytes, %s", bytes, way)
	f, c := b.r.addFigure(name, "reads/s", found[0]...), b.r.addFigure(name+", CPU", "us/read", found[1]...)
	fmt.Fprintf(t, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f", bytes, way, f.Median, f.Min, f.Max, f.Median*c.Median/1e6, c.Median)
	for k, of := range []string{"reads/s", "CPU"} {
		ratio := b.r.addRatio(name+" / io_uring, "+of, found[k], first[k])
		fmt.Fprintf(t, "\t%.2f\t%s", ratio.Median, ratio.betweenText(2))
	}
	fmt.Fprintln(t, "\t")
}
