package data

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// A Reader has one cache of blocks for all its batches. It returns the batches that single reads return, of files of any sizes.
func TestReaderCachesBlocks(t *testing.T) {
	rnd := random(t)
	for round := range 16 {
		sizes := []int{1 + rnd.IntN(9000)}
		for rnd.IntN(2) == 0 && len(sizes) < 40 {
			sizes = append(sizes, 1+rnd.IntN(2*cachedRecords/len(sizes)))
		}
		s := []func(*testing.T, *rand.Rand, []int) Source{criteoFiles, recordFiles, bagFiles, numpyDays}[round%4](t, rnd, sizes)
		o := Order{Samples: s.Len(), Batch: 1 + rnd.IntN(3000), Shuffle: rnd.IntN(4) > 0, Seed: rnd.Uint64()}
		ranks := 1 + rnd.IntN(20)
		rank := rnd.IntN(ranks)
		steps := min(3*o.StepsPerEpoch(), 60)
		r := NewReader(env.Real(), s, o, rank, ranks, 1, steps, 3, 1)
		for step := range steps {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			want := new(Batch)
			if err := s.Read(want, o.Slice(step+1, rank, ranks, nil)); err != nil {
				t.Fatal(err)
			}
			sameBatch(t, fmt.Sprintf("files of %d samples, %+v, rank %d of %d, step %d", sizes, o, rank, ranks, step+1), b, want)
			r.Release(b)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("after the last step: %v", err)
		}
		r.Close()
	}
}

func criteoFiles(t *testing.T, rnd *rand.Rand, sizes []int) Source {
	o := Options{Format: FormatCriteoBin, Tables: testTables}
	for i, n := range sizes {
		o.Files = append(o.Files, writeFile(t, fmt.Sprintf("%d.bin", i), recordBytesOf(randomRecords(rnd, n))))
	}
	return mustOpen(t, o)
}

func recordFiles(t *testing.T, rnd *rand.Rand, sizes []int) Source {
	o := Options{Format: FormatRecord, Tables: testTables}
	for i, n := range sizes {
		text := writeFile(t, fmt.Sprintf("%d.tsv", i), tsvOf(randomRecords(rnd, n)))
		c, err := Convert(Options{Env: env.Real(), Format: FormatCriteoTSV, Files: []string{text}}, filepath.Join(t.TempDir(), "x.rec"))
		if err != nil {
			t.Fatal(err)
		}
		o.Files = append(o.Files, c.File)
	}
	return mustOpen(t, o)
}

func bagFiles(t *testing.T, rnd *rand.Rand, sizes []int) Source {
	dir := t.TempDir()
	o := bagOptions(dir)
	for i, n := range sizes {
		text, _, _ := bagText(rnd, n)
		o.Files = append(o.Files, filepath.Join(dir, fmt.Sprintf("%d.csv", i)))
		if err := os.WriteFile(o.Files[i], []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return mustOpen(t, o)
}

func numpyDays(t *testing.T, rnd *rand.Rand, sizes []int) Source {
	dir := t.TempDir()
	for i, n := range sizes {
		randomDay(rnd, n, []int{3, 1, 2, 5}).Write(t, filepath.Join(dir, fmt.Sprintf("day_%02d%s", i, multiHotEnding)))
	}
	s := mustOpen(t, numpyOptions(t, filepath.Join(dir, "*"+multiHotEnding)))
	if rnd.IntN(2) == 0 {
		s.(*numpySource).blockSamples = 1 + rnd.Int64N(shuffleBlock) // as of larger samples
	}
	return s
}

// A block of which a Reader takes many samples is read once: the Reader does not notice that the file has been overwritten since.
func TestBlockIsReadOnce(t *testing.T) {
	const samples, batch = shuffleBlock, 60
	records := recordBytesOf(randomRecords(rand.New(rand.NewPCG(1, 1)), samples))
	path := writeFile(t, "a.bin", records)
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{path}, Tables: testTables})
	o := Order{Samples: samples, Batch: batch, Shuffle: true}
	var blocks blockCache
	b, want := Batch{read: readState{blocks: &blocks}}, make([]Batch, o.StepsPerEpoch())
	for step := range want {
		if err := s.Read(&want[step], o.Slice(int64(step)+1, 0, 1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	const loads = (samples*criteoBytes/singleBytes + batch - 1) / batch // the step that loads the block
	for step := range want {
		if step == loads {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(make([]byte, len(records)), 0)
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if loaded := blocks.blocks[cachedBlocks-1].loaded; loaded != (step >= loads) {
			t.Fatalf("before step %d the block is in memory: %v", step+1, loaded)
		}
		if err := s.Read(&b, o.Slice(int64(step)+1, 0, 1, nil)); err != nil {
			t.Fatal(err)
		}
		sameBatch(t, fmt.Sprintf("step %d", step+1), &b, &want[step])
	}
}

// A cache holds a bounded number of records, and removes the block that was used least recently.
func TestBlockCacheIsBounded(t *testing.T) {
	rnd := random(t)
	var c blockCache
	var recent []int64 // numbers of blocks, the last used one last
	sizes := make([]int64, 60)
	for i := range sizes {
		sizes[i] = 1 + rnd.Int64N(shuffleBlock>>rnd.IntN(12))
	}
	file := new(int)
	for range 5000 {
		n := rnd.Int64N(int64(len(sizes)))
		if rnd.IntN(2) == 0 {
			n %= 4
		}
		b := c.findPlace(file, n, sizes[n])
		for i := range recent {
			if recent[i] == n {
				recent = append(recent[:i], recent[i+1:]...)
				break
			}
		}
		recent = append(recent, n)
		total, count := int64(0), 0
		for i := len(recent) - 1; i >= 0 && count < cachedBlocks && total+sizes[recent[i]] <= cachedRecords; i-- {
			total, count = total+sizes[recent[i]], count+1
		}
		recent = recent[len(recent)-count:]
		held := map[int64]bool{}
		for i := range c.blocks {
			if c.blocks[i].file != nil {
				held[c.blocks[i].block] = true
			}
		}
		if b.block != n || b.records != sizes[n] || len(held) != len(recent) {
			t.Fatalf("block %d: %+v; %d blocks are held, want %v", n, b, len(held), recent)
		}
		for _, n := range recent {
			if !held[n] {
				t.Fatalf("block %d is not held, but %v", n, held)
			}
		}
	}
}
