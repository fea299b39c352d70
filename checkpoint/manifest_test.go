package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

func floatBytes(f []float32) []byte { return kernels.BytesOf(f) }

// rewrite gives a checkpoint's manifest another format, with the right sum.
func rewrite(t *testing.T, c *Checkpoint, format int) int {
	t.Helper()
	b := sealed(format, []byte(`{"unknown": true}`))
	if err := os.WriteFile(filepath.Join(c.Path, manifestFile), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return format
}

// sealed is a manifest with this content and a correct sum.
func sealed(format int, body []byte) []byte {
	return envelope{format, sumText(xxh3.HashSeed(body, uint64(format))), body}.encode()
}

// smallManifest is a valid manifest, for the fuzzer to begin with.
func smallManifest() *Manifest {
	m := &Manifest{Step: 7, Ranks: 1, Model: Model{Kind: "dlrm", Tables: []Table{{"a", 70}}, Width: 2, RowState: 1,
		Tensors: []Tensor{{"b", []int64{3}}}}}
	m.Files = []File{{rowsFile(0), 3, sizeOf(rowSpecs(70, 3, &m.Model, false)), sumText(1)}, {denseFile, 0, sizeOf(m.Model.denseSpecs()), sumText(2)},
		{historyFile, 0, 0, sumText(3)}}
	return m
}

// Any content, even with a correct sum, is an error or a valid manifest that survives being
// written again.
func FuzzManifest(f *testing.F) {
	good, err := smallManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := parseManifest(good); err != nil {
		f.Fatal(err)
	}
	body := good[bytes.Index(good, []byte("checkpoint\": "))+len("checkpoint\": ") : len(good)-3]
	f.Add(body)
	f.Add([]byte(`{"step":1,"ranks":1000000,"model":{"width":1},"files":[]}`))
	f.Add([]byte(`{"step":1,"ranks":1,"model":{"width":1,"tables":[{"name":"a","rows":9223372036854775807}]},"files":[null,null,null]}`))
	f.Add([]byte(`{"step":1,"ranks":1,"needs":["x"],"run":{"name":"a","lineage":"unknown","forks":[{"lineage":"","step":-1}],"recipe":["a = 1"]}}`))
	f.Add([]byte(`{"step":3,"ranks":1,"needs":["parent"],"parent":{"name":"step-000000000002","step":2},"model":{"width":1},"files":[null,null,null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = parseManifest(body)
		m, err := parseManifest(sealed(1+len(body)%format, body))
		if err != nil {
			return
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseManifest(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}

// Any content of a row file, even with a correct sum, is an error or the number of rows of
// the manifest, in existing slots that ascend.
func FuzzRowFile(f *testing.F) {
	m := smallManifest()
	w := newWorld(m.Model, 1)
	defer w.close()
	if err := w.shards[0].StoreRaw([]int32{2, 3, 69}, make([]byte, 36)); err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	if err := w.save(Save{Dir: dir, Step: 1}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, stepName(1), rowsFile(0)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := smallManifest()
		m.Files[0].Bytes, m.Files[0].XXH3 = int64(len(b)), sumText(xxh3.Hash(b))
		c := &Checkpoint{Path: "fuzzed", Manifest: *m, env: env.Real()}
		sink := &checkingSink{t: t, last: -1}
		r, err := c.streamRows(0, &inMemory{all: b, block: 1 + len(b)%97})
		if err == nil {
			err = c.storeRows(r, 0, 1, sink)
		}
		if err == nil && (sink.rows != 3 || int64(len(b)) != sizeOf(rowSpecs(70, 3, &m.Model, false))) {
			t.Fatalf("%d bytes gave %d rows", len(b), sink.rows)
		}
		if err != nil && !errors.As(err, new(*Corrupt)) {
			t.Fatal(err)
		}
	})
}

// inMemory returns the bytes of a file in small blocks.
type inMemory struct {
	all       []byte
	at, block int
}

func (r *inMemory) Next(keep []byte) ([]byte, error) {
	if r.at == len(r.all) {
		return nil, io.EOF
	}
	next := r.all[r.at:min(r.at+r.block, len(r.all))]
	r.at += len(next)
	return append(bytes.Clone(keep), next...), nil
}
func (r *inMemory) Size() int64  { return int64(len(r.all)) }
func (r *inMemory) Sum() uint64  { return xxh3.Hash(r.all) }
func (r *inMemory) Close() error { return nil }

type checkingSink struct {
	t    *testing.T
	last int32
	rows int
}

func (s *checkingSink) Populate(slot int64, n, some int) {
	if slot < 0 || n < 1 || slot+int64(n) > 70 || some < 0 || some > n {
		panic(fmt.Sprintf("populate %d rows from %d on", n, slot))
	}
}

func (s *checkingSink) StoreRaw(slots []int32, rows []byte) error {
	for _, slot := range slots {
		if slot <= s.last || slot >= 70 {
			s.t.Fatalf("slot %d after %d", slot, s.last)
		}
		s.last = slot
	}
	s.rows += len(slots)
	if len(rows) != 12*len(slots) {
		s.t.Fatalf("%d bytes for %d rows", len(rows), len(slots))
	}
	return nil
}
