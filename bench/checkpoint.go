package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

var checkpointBench = Bench{
	Name: "checkpoint",
	Doc:  "speed of saving and loading checkpoints, beside the raw speed of the disk",
	Detail: "Saves and loads rows with their optimizer state, in turn with plain O_DIRECT writes and reads of the same " +
		"number of bytes.",
	Settings: []Setting{
		dirSetting,
		number("mib", "1024", 1, 1<<20, "size of all rows with their state, in MiB").orTiny("4"),
		number("ranks", "2", 1, 64, "ranks that save and load at once"),
		number("width", "16", 1, 4096, "weights of a row"),
	},
	measure: runCheckpoint,
}

// diskBench is one run of the benchmark.
type diskBench struct {
	dir   string
	ranks int
	bytes int64 // of all rows
	model checkpoint.Model
	dev   kernels.Device
	full  []*shard.Shard // every row touched
	s     []kernels.Stream
	step  int64
}

func runCheckpoint(out io.Writer, o Options) (_ *Report, err error) {
	b := &diskBench{ranks: o.number("ranks")}
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	width := o.number("width")
	rows := int64(o.number("mib")) << 20 / int64(4*(width+1))
	b.bytes = rows * int64(4*(width+1))
	b.model = checkpoint.Model{Kind: "dlrm", Tables: []checkpoint.Table{{Name: "emb_l.0.weight", Rows: rows}}, Width: width, RowState: 1}
	if b.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	if b.full, err = b.newShards(); err != nil {
		return nil, err
	}
	defer b.freeShards(b.full)
	for _, h := range b.full {
		if err := shard.CountAsWritten(h); err != nil {
			return nil, err
		}
	}
	return b.measureDisk(out, o)
}

// measureDisk runs all stages in turn, so that ratios hold if the disk's speed drifts.
func (b *diskBench) measureDisk(out io.Writer, o Options) (*Report, error) {
	r := o.newReport(b.dev.Name())
	r.writeHeader(out)
	fmt.Fprintf(out, "%d ranks, %.3f GB of rows in %s\n", b.ranks, float64(b.bytes)/1e9, b.dir)
	stages := []struct {
		name string
		run  func() (time.Duration, error)
	}{{"disk write", b.diskWrite}, {"save", b.saveCheckpoint}, {"disk read", b.diskRead}, {"load", b.loadCheckpoint}}
	rates := make([][]float64, len(stages))
	_, times, err := runTurns(o, o.repeats(), func(turn func(string, func() (time.Duration, error))) {
		for _, s := range stages {
			turn(s.name, s.run)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, turn := range times {
		for i, took := range turn {
			rates[i] = append(rates[i], float64(b.bytes)/1e9/took.Seconds())
		}
	}
	t := table(out)
	fmt.Fprintln(t, "\tGB/s\tleast\tgreatest\tof the disk's\tinterval\t")
	for i, s := range stages {
		f := r.addFigure(s.name, "GB/s", rates[i]...)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t", s.name, f.Median, f.Min, f.Max)
		if i%2 == 1 {
			ratio := r.addRatio(s.name+" / "+stages[i-1].name, rates[i], rates[i-1])
			fmt.Fprintf(t, "%.2f\t%s\t", ratio.Median, ratio.betweenText(2))
		}
		fmt.Fprintln(t)
	}
	return r, t.Flush()
}

func (b *diskBench) newShards() ([]*shard.Shard, error) {
	var all []*shard.Shard
	place := placement.New([]int64{b.model.Tables[0].Rows}, b.ranks)
	for rank := range b.ranks {
		if len(b.s) == rank {
			b.s = append(b.s, b.dev.Stream(1))
		}
		h, err := shard.New(b.dev, b.s[rank], shard.Options{Map: place, Owner: rank, Width: b.model.Width, State: b.model.RowState, Packed: true})
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

func (b *diskBench) freeShards(shards []*shard.Shard) {
	for _, h := range shards {
		h.Close()
	}
}

// forEachRank runs f for every rank at once and returns how long all took.
func (b *diskBench) forEachRank(f func(rank int) error) (time.Duration, error) {
	errs := make([]error, b.ranks)
	begin := time.Now()
	var wg sync.WaitGroup
	for rank := range b.ranks {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	return time.Since(begin), errors.Join(errs...)
}

// saveCheckpoint writes a checkpoint, which replaces the one before.
func (b *diskBench) saveCheckpoint() (time.Duration, error) {
	b.step++
	s := checkpoint.Save{Env: env.Real(), Dir: filepath.Join(b.dir, "checkpoints"), Step: b.step, Ranks: b.ranks, Model: b.model, Keep: 1}
	begin := time.Now()
	if err := s.Begin(); err != nil {
		return 0, err
	}
	parts := make([]checkpoint.Part, b.ranks+1)
	if _, err := b.forEachRank(func(rank int) (err error) {
		parts[rank], err = s.WriteRows(rank, b.full[rank])
		return err
	}); err != nil {
		return 0, err
	}
	written := int64(0)
	for _, p := range parts[:b.ranks] {
		written += p.Bytes
	}
	if written < b.bytes {
		return 0, fmt.Errorf("bench: the checkpoint has %d bytes of rows, the ranks have %d", written, b.bytes)
	}
	var err error
	if parts[b.ranks], err = s.WriteDense(nil, nil); err != nil {
		return 0, err
	}
	err = s.Commit(parts, "", nil)
	return time.Since(begin), err
}

// loadCheckpoint reads the checkpoint into untouched memory.
func (b *diskBench) loadCheckpoint() (time.Duration, error) {
	fresh, err := b.newShards()
	if err != nil {
		return 0, err
	}
	defer b.freeShards(fresh)
	begin := time.Now()
	c, problems, err := checkpoint.Find(env.Real(), filepath.Join(b.dir, "checkpoints"), 0)
	if err != nil || c == nil {
		return 0, fmt.Errorf("bench: no checkpoint to load: %v, %w", problems, err)
	}
	if _, err := b.forEachRank(func(rank int) error { return c.ReadRows(rank, b.ranks, fresh[rank]) }); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// diskBlock is the size of one plain read or write.
const diskBlock = 1 << 20

// diskWrite writes as many bytes as a checkpoint has, in one file per rank and from the same block of
// memory, and waits until they are on the disk.
func (b *diskBench) diskWrite() (time.Duration, error) {
	begin := time.Now()
	for rank := range b.ranks {
		_ = os.Remove(b.plainPath(rank)) // of the repeat before, as a save removes the checkpoint before
	}
	_, err := b.forEachRank(func(rank int) error {
		return b.plainFile(rank, os.O_CREATE|os.O_WRONLY, func(f *os.File, block []byte, at int64) error {
			_, err := f.WriteAt(block, at)
			return err
		})
	})
	return time.Since(begin), err
}

func (b *diskBench) diskRead() (time.Duration, error) {
	return b.forEachRank(func(rank int) error {
		return b.plainFile(rank, os.O_RDONLY, func(f *os.File, block []byte, at int64) error {
			_, err := f.ReadAt(block, at)
			return err
		})
	})
}

func (b *diskBench) plainPath(rank int) string {
	return filepath.Join(b.dir, fmt.Sprintf("plain-%d", rank))
}

// plainFile moves a rank's share of the bytes block by block.
func (b *diskBench) plainFile(rank, flag int, move func(f *os.File, block []byte, at int64) error) error {
	f, err := os.OpenFile(b.plainPath(rank), flag|directFlag, 0o644)
	if errors.Is(err, unix.EINVAL) { // a file system that has only buffered files
		f, err = os.OpenFile(b.plainPath(rank), flag, 0o644)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 2*diskBlock)
	block = block[int(-uintptr(unsafe.Pointer(&block[0]))&(diskBlock-1)):][:diskBlock]
	for i := range block {
		block[i] = byte(i)
	}
	share := (b.bytes/int64(b.ranks) + diskBlock - 1) / diskBlock * diskBlock
	for at := int64(0); at < share; at += diskBlock {
		if err := move(f, block, at); err != nil {
			return err
		}
	}
	if flag&os.O_WRONLY == 0 {
		return nil
	}
	return f.Sync()
}
