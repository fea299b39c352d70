package clicks

import (
	"encoding/binary"
	"fmt"
	"os"
	"sort"
	"sync"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/f32"
	"github.com/ecrec/ecrec/internal/regular"
)

// Format is the entry for data.Formats. A record is the label (a byte, 0 or not), two numbers
// (int32) and one id for each table (uint32), little-endian.
var Format = data.Format{
	Name:    "clicks",
	Doc:     "binary records: a label byte, two int32, one uint32 for each table",
	Endings: []string{".clicks"},
	Columns: func(data.CSV) (dense, categorical int) { return numbers, data.Any },
	Open:    open,
}

const numbers = 2

// source is the samples of some files, as if they were one.
type source struct {
	env    env.Env
	schema data.Schema
	record int64 // bytes
	files  []file
	reads  sync.Pool // of *read, so that a Read allocates nothing
}

type file struct {
	*os.File
	end int64 // index behind its last sample
}

func open(o *data.Options) (data.Source, error) {
	s := &source{env: o.Env, schema: data.Schema{Dense: numbers, Tables: o.Tables}, record: 1 + 4*numbers + 4*int64(len(o.Tables))}
	s.reads.New = func() any {
		r := &read{source: s}
		r.run = r.all
		return r
	}
	for _, name := range o.Files {
		if err := s.env.Do("open "+name, func() error { return s.add(name) }); err != nil {
			s.Close()
			return nil, &data.Error{File: name, What: "cannot open the data file", Err: err}
		}
	}
	return s, nil
}

// add opens a file behind those that are open.
func (s *source) add(name string) error {
	f, err := regular.Open(name)
	if err != nil {
		return err
	}
	s.files = append(s.files, file{f, s.Len()})
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() == 0 || info.Size()%s.record != 0:
		return fmt.Errorf("%d bytes are not records of %d bytes each; the file is cut short, or model.tables has not its number of tables",
			info.Size(), s.record)
	}
	s.files[len(s.files)-1].end += info.Size() / s.record
	return nil
}

func (s *source) Schema() data.Schema { return s.schema }
func (s *source) Skipped() int64      { return 0 }

func (s *source) Len() int64 {
	if len(s.files) == 0 {
		return 0
	}
	return s.files[len(s.files)-1].end
}

func (s *source) Close() error {
	var first error
	for _, f := range s.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Read fills b with the samples at idx.
func (s *source) Read(b *data.Batch, idx []int64) error {
	b.N = len(idx)
	b.Labels, b.Dense, b.IDs = grow(b.Labels, b.N), grow(b.Dense, b.N*numbers), grow(b.IDs, b.N*len(s.schema.Tables))
	r := s.reads.Get().(*read)
	defer s.reads.Put(r)
	r.batch, r.idx, r.buf = b, idx, grow(r.buf, int(s.record))
	return s.env.Do("read samples", r.run)
}

// read is one call of Read.
type read struct {
	*source
	batch *data.Batch
	idx   []int64
	buf   []byte // a record
	run   func() error
}

func (r *read) all() error {
	for i, at := range r.idx {
		n := sort.Search(len(r.files), func(n int) bool { return at < r.files[n].end })
		begin := int64(0)
		if n > 0 {
			begin = r.files[n-1].end
		}
		if _, err := r.files[n].ReadAt(r.buf, (at-begin)*r.record); err != nil {
			return &data.Error{File: r.files[n].Name(), What: fmt.Sprintf("cannot read sample %d", at-begin), Err: err}
		}
		r.decode(i)
	}
	return nil
}

// decode sets sample i of the batch. Numbers become log(1 + max(x, 0)), ids are taken modulo the
// rows of their table.
func (r *read) decode(i int) {
	r.batch.Labels[i] = 0
	if r.buf[0] != 0 {
		r.batch.Labels[i] = 1
	}
	words := r.buf[1:]
	for j := range numbers {
		x := int32(binary.LittleEndian.Uint32(words[4*j:]))
		r.batch.Dense[i*numbers+j] = float32(f32.Log1p64(float64(max(x, 0))))
	}
	for j, rows := range r.schema.Tables {
		id := binary.LittleEndian.Uint32(words[4*(numbers+j):])
		r.batch.IDs[i*len(r.schema.Tables)+j] = uint32(int64(id) % rows)
	}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
