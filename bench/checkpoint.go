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
	Doc: "saving and loading rows with their optimizer state, beside what the same disk writes and reads with O_DIRECT " +
		"(settings: dir=FOLDER, mib=N, ranks=N, width=N)",
	Run: runCheckpoint,
}

// diskBench is what one run of the checkpoint benchmark works with.
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
	if err := o.checkArgs("dir", "mib", "ranks", "width"); err != nil {
		return nil, err
	}
	mib, err := o.number("mib", 1024, 1, 1<<20)
	if err != nil {
		return nil, err
	}
	if o.Tiny {
		mib = 4
	}
	b := &diskBench{}
	if b.ranks, err = o.number("ranks", 2, 1, 64); err != nil {
		return nil, err
	}
	width, err := o.number("width", 16, 1, 4096)
	if err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(o.option("dir", ""), "ecrec-bench-*"); err != nil {
		return nil, settingError("dir=%s: %v", o.option("dir", ""), err)
	}
	defer os.RemoveAll(b.dir)
	rows := int64(mib) << 20 / int64(4*(width+1))
	b.bytes = rows * int64(4*(width+1))
	b.model = checkpoint.Model{Kind: "dlrm", Tables: []checkpoint.Table{{Name: "emb_l.0.weight", Rows: rows}}, Width: width, RowState: 1}
	if b.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	if b.full, err = b.shards(); err != nil {
		return nil, err
	}
	defer b.free(b.full)
	for _, h := range b.full {
		if err := h.TouchAll(); err != nil {
			return nil, err
		}
	}
	return b.measure(out, o)
}

// measure does everything in turn, so that a ratio holds when the disk's speed
// drifts.
func (b *diskBench) measure(out io.Writer, o Options) (*Report, error) {
	r := newReport("checkpoint", b.dev.Name())
	r.header(out)
	fmt.Fprintf(out, "%d ranks, %.3f GB of rows in %s\n", b.ranks, float64(b.bytes)/1e9, b.dir)
	stages := []struct {
		name string
		run  func() (time.Duration, error)
	}{{"disk write", b.diskWrite}, {"save", b.save}, {"disk read", b.diskRead}, {"load", b.load}}
	rates := make([][]float64, len(stages))
	for range o.repeats() {
		for i, s := range stages {
			took, err := s.run()
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], float64(b.bytes)/1e9/took.Seconds())
		}
	}
	t := table(out)
	fmt.Fprintln(t, "\tGB/s\tleast\tgreatest\tof the disk's\t")
	for i, s := range stages {
		f := r.add(s.name, "GB/s", rates[i]...)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t", s.name, f.Median, f.Min, f.Max)
		if i%2 == 1 {
			ratios := make([]float64, len(rates[i]))
			for k := range ratios {
				ratios[k] = rates[i][k] / rates[i-1][k]
			}
			fmt.Fprintf(t, "%.2f\t", r.add(s.name+" / "+stages[i-1].name, "", ratios...).Median)
		}
		fmt.Fprintln(t)
	}
	return r, t.Flush()
}

func (b *diskBench) shards() ([]*shard.Shard, error) {
	var all []*shard.Shard
	place := placement.New([]int64{b.model.Tables[0].Rows}, b.ranks)
	for rank := range b.ranks {
		if len(b.s) == rank {
			b.s = append(b.s, b.dev.Stream(1))
		}
		h, err := shard.New(b.dev, b.s[rank], shard.Options{Map: place, Owner: rank, Width: b.model.Width, State: b.model.RowState})
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

func (b *diskBench) free(shards []*shard.Shard) {
	for _, h := range shards {
		h.Close()
	}
}

// each runs f for every rank at once and returns how long all took.
func (b *diskBench) each(f func(rank int) error) (time.Duration, error) {
	errs := make([]error, b.ranks)
	begin := time.Now()
	var wg sync.WaitGroup
	for rank := range b.ranks {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	return time.Since(begin), errors.Join(errs...)
}

// save writes a checkpoint; the one before goes.
func (b *diskBench) save() (time.Duration, error) {
	b.step++
	s := checkpoint.Save{Env: env.Real(), Dir: filepath.Join(b.dir, "checkpoints"), Step: b.step, Ranks: b.ranks, Model: b.model, Keep: 1}
	begin := time.Now()
	if err := s.Begin(); err != nil {
		return 0, err
	}
	parts := make([]checkpoint.Part, b.ranks+1)
	if _, err := b.each(func(rank int) (err error) {
		parts[rank], err = s.WriteRows(rank, b.full[rank])
		return err
	}); err != nil {
		return 0, err
	}
	var err error
	if parts[b.ranks], err = s.WriteDense(nil, nil); err != nil {
		return 0, err
	}
	err = s.Commit(parts, "", nil)
	return time.Since(begin), err
}

// load reads the checkpoint into memory that was never touched.
func (b *diskBench) load() (time.Duration, error) {
	fresh, err := b.shards()
	if err != nil {
		return 0, err
	}
	defer b.free(fresh)
	begin := time.Now()
	c, problems, err := checkpoint.Find(env.Real(), filepath.Join(b.dir, "checkpoints"), 0)
	if err != nil || c == nil {
		return 0, fmt.Errorf("bench: no checkpoint to load: %v, %w", problems, err)
	}
	if _, err := b.each(func(rank int) error { return c.ReadRows(rank, b.ranks, fresh[rank]) }); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// diskBlock is how much the plain disk figures move at a time.
const diskBlock = 1 << 20

// diskWrite writes as many bytes as a checkpoint has, a file for each rank, from
// the same block of memory, and waits until they are on the disk.
func (b *diskBench) diskWrite() (time.Duration, error) {
	begin := time.Now()
	for rank := range b.ranks {
		_ = os.Remove(b.plain(rank)) // of the repeat before: as a save removes the one before
	}
	_, err := b.each(func(rank int) error {
		return b.plainFile(rank, os.O_CREATE|os.O_WRONLY, func(f *os.File, block []byte, at int64) error {
			_, err := f.WriteAt(block, at)
			return err
		})
	})
	return time.Since(begin), err
}

func (b *diskBench) diskRead() (time.Duration, error) {
	return b.each(func(rank int) error {
		return b.plainFile(rank, os.O_RDONLY, func(f *os.File, block []byte, at int64) error {
			_, err := f.ReadAt(block, at)
			return err
		})
	})
}

func (b *diskBench) plain(rank int) string {
	return filepath.Join(b.dir, fmt.Sprintf("plain-%d", rank))
}

// plainFile moves a rank's share of the bytes block by block.
func (b *diskBench) plainFile(rank, flag int, move func(f *os.File, block []byte, at int64) error) error {
	f, err := os.OpenFile(b.plain(rank), flag|unix.O_DIRECT, 0o644)
	if errors.Is(err, unix.EINVAL) { // a file system that has only buffered files
		f, err = os.OpenFile(b.plain(rank), flag, 0o644)
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
