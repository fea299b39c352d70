package data

import (
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

func TestReader(t *testing.T) {
	const n, size = 1000, 64
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), n)
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{writeFile(t, "a.bin", recordBytesOf(records))}, Tables: testTables})
	o := Order{Samples: s.Len(), Batch: size, Shuffle: true, Seed: 5}
	for ranks := 1; ranks <= 3; ranks++ {
		for rank := range ranks {
			r := NewReader(env.Real(), s, o, rank, ranks, 3, 40, 4, 1)
			var held []*Batch
			for step := int64(3); step <= 40; step++ {
				b, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				idx := o.Slice(step, rank, ranks, nil)
				if b.Step != step || b.N != len(idx) || b.GlobalN != o.BatchSize(step) {
					t.Fatalf("step %d: got step %d, %d of %d samples", step, b.Step, b.N, b.GlobalN)
				}
				held = append(held, b)
				if len(held) == 3 { // checked late: it must not be overwritten before
					idx = o.Slice(step-2, rank, ranks, idx)
					for i, p := range idx {
						checkCriteo(t, held[0], i, records[p*criteoFields:][:criteoFields], testTables)
					}
					r.Release(held[0])
					held = slices.Delete(held, 0, 1)
				}
			}
			for range 2 {
				if _, err := r.Next(); err != io.EOF {
					t.Fatalf("after the last step: %v", err)
				}
			}
			r.Close()
		}
	}
}

func TestReaderError(t *testing.T) {
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 100)
	name := writeFile(t, "a.bin", recordBytesOf(records))
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{name}, Tables: testTables})
	records[55*criteoFields] = 2
	writeFile(t, name, recordBytesOf(records)) // changed in use
	r := NewReader(env.Real(), s, Order{Samples: 100, Batch: 10}, 0, 1, 1, 10, 3, 1)
	for range 5 {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		r.Release(b)
	}
	for range 2 {
		_, err := r.Next()
		checkError(t, err, "step 6", "a.bin", "record 56:")
	}
	r.Close()
}

func TestReaderClosedEarly(t *testing.T) {
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 100)
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{writeFile(t, "a.bin", recordBytesOf(records))}, Tables: testTables})
	for range 20 {
		r := NewReader(env.Real(), s, Order{Samples: 100, Batch: 10}, 0, 1, 1, 1000, 3, 1)
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		r.Release(b)
		r.Close()
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after Close: %v", err)
		}
	}
}

func TestReaderReusesItsMemory(t *testing.T) {
	s := mustOpen(t, Options{Format: FormatSynthetic, Tables: testTables, Seed: 1})
	r := NewReader(env.Real(), s, Order{Samples: s.Len(), Batch: 64}, 1, 2, 1, 1000, 3, 1)
	defer r.Close()
	step := func() {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		r.Release(b)
	}
	for range 10 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// Several goroutines yield the same batches in the same order, whichever ones the caller holds.
func TestReaderOnThreads(t *testing.T) {
	s := mustOpen(t, Options{Format: FormatSynthetic, Tables: testTables, Seed: 1})
	o := Order{Samples: s.Len(), Batch: 20}
	for _, c := range [][3]int{{2, 2, 1}, {3, 2, 2}, {5, 3, 4}, {8, 100, 7}} {
		depth, threads, most := c[0], c[1], c[2]
		const first, last = 4, 40
		r := NewReader(env.Real(), s, o, 0, 1, first, last, depth, threads)
		var held []*Batch
		for step := int64(first); step <= last; step++ {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			var want Batch
			if err := s.Read(&want, o.Slice(step, 0, 1, nil)); err != nil {
				t.Fatal(err)
			}
			if b.Step != step || !slices.Equal(b.IDs, want.IDs) || !slices.Equal(b.Labels, want.Labels) {
				t.Fatalf("%v: step %d is not the one that is read alone", c, step)
			}
			if held = append(held, b); len(held) == most {
				r.Release(held[0])
				held = held[1:]
			}
		}
		for range 2 {
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("%v: after the last step: %v", c, err)
			}
		}
		r.Close()
	}
}

// together is a source of which some steps are read only at once.
type together struct {
	Source
	from    int64 // the first sample of these steps
	reading sync.WaitGroup
}

func (s *together) readsApart() {}

func (s *together) Read(b *Batch, idx []int64) error {
	if idx[0] >= s.from {
		s.reading.Done()
		s.reading.Wait()
	}
	return s.Source.Read(b, idx)
}

// TestReaderKeepsThreadsBusy checks that all goroutines of a reader prepare steps while the caller holds all batches but two.
func TestReaderKeepsThreadsBusy(t *testing.T) {
	const depth, threads, batch = 8, 4, 20
	const held = depth - 2
	s := &together{Source: mustOpen(t, Options{Format: FormatSynthetic, Tables: testTables, Seed: 1}), from: held * batch}
	s.reading.Add(threads)
	const last = held + threads
	r := NewReader(env.Real(), s, Order{Samples: s.Len(), Batch: batch}, 0, 1, 1, last, depth, threads)
	for step := int64(1); step <= held; step++ {
		if b, err := r.Next(); err != nil || b.Step != step {
			t.Fatal(b, err)
		}
	}
	read := make(chan struct{})
	go func() {
		s.reading.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(10 * time.Second):
		panic("some goroutines have no batch") // Close would wait for the others for ever
	}
	if b, err := r.Next(); err != nil || b.Step != held+1 {
		t.Fatal(b, err)
	}
	r.Close()
}
