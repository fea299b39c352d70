package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/rng"
	"github.com/ecrec/ecrec/train/traintest"
)

// bagSource has samples of 3 numbers and bags of 0 to 4 ids, of which some are equal.
type bagSource struct {
	schema   data.Schema
	key      uint64
	samples  int64
	one      bool // every bag has one id
	single   bool // there are no bags: the same ids as with one
	weighted bool
}

// bagFormat is a format of such samples. The names of its files choose the samples.
func bagFormat(name string, one, single, weighted bool) data.Format {
	return data.Format{Name: name, Columns: func(data.CSV) (dense, categorical int) { return 3, data.Any },
		Open: func(o *data.Options) (data.Source, error) {
			s := &bagSource{schema: data.Schema{Dense: 3, Tables: o.Tables, TableOf: o.TableOf, IDs: 2 * float64(len(o.Tables))},
				key: 1, samples: 200, one: one, single: single, weighted: weighted}
			if strings.HasPrefix(filepath.Base(o.Files[0]), "eval") {
				s.key, s.samples = 2, 50
			}
			if info, err := os.Stat(o.Files[0]); err != nil || info.Size() == 0 {
				return nil, err
			}
			return s, nil
		}}
}

func (s *bagSource) Schema() data.Schema { return s.schema }
func (s *bagSource) Len() int64          { return s.samples }
func (s *bagSource) Skipped() int64      { return 0 }
func (s *bagSource) Close() error        { return nil }

func (s *bagSource) Read(b *data.Batch, idx []int64) error {
	b.N, b.Labels, b.Dense, b.IDs = len(idx), b.Labels[:0], b.Dense[:0], b.IDs[:0]
	b.Offsets, b.Weights = append(b.Offsets[:0], 0), b.Weights[:0]
	for _, i := range idx {
		d := rng.Draw(s.key, rng.Synthetic, 77, uint64(i), 0)
		b.Labels = append(b.Labels, float32(d[0]&1))
		b.Dense = append(b.Dense, float32(d[1]%8)/4, float32(d[2]%8)/4, float32(d[3]%8)/4)
		for f, rows := range s.schema.FeatureRows() {
			d := rng.Draw(s.key, rng.Synthetic, uint32(78+f), uint64(i), 0)
			n := int(d[0] % 5)
			if s.one {
				n = 1
			}
			for p := range n {
				b.IDs = append(b.IDs, uint32(int64(d[1]>>(4*p))%min(rows, 5*int64(1+f))))
				if s.weighted {
					b.Weights = append(b.Weights, float32(d[2]>>(4*p)%16)/8)
				}
			}
			b.Offsets = append(b.Offsets, int32(len(b.IDs)))
		}
	}
	if s.single {
		b.Offsets = nil
	}
	return nil
}

func init() {
	data.Formats = append(data.Formats, bagFormat("test-bags", false, false, false),
		bagFormat("test-weighted", false, false, true), bagFormat("test-one", true, false, false), bagFormat("test-single", true, true, false))
}

// TestBags trains on bags: sums and means, some with weights, of tables of which two features share
// one.
func TestBags(t *testing.T) {
	t.Run("weighted", func(t *testing.T) {
		t.Parallel()
		traintest.Kind(t, append(shape, "data.format=test-weighted")...)
	})
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		traintest.Features(t, append(shape, "data.format=test-bags", `model.pooling=["sum", "mean", "sum"]`)...)
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		traintest.Features(t, append(shape, "data.format=test-weighted", "model.pooling=mean", `model.table_of=["a", "b", "a"]`,
			"model.tables=[40, 70]")...)
	})
}

// TestBagsOfOneID checks that bags of one id train to the bits of single ids, summed or averaged.
func TestBagsOfOneID(t *testing.T) {
	digest := func(sets ...string) string { return traintest.Digest(t, slices.Concat(shape, sets)...) }
	want := digest("data.format=test-single")
	for _, sets := range [][]string{{"data.format=test-one"}, {"data.format=test-one", "model.pooling=mean"}} {
		if got := digest(sets...); got != want {
			t.Errorf("%v: digest %s, want %s", sets, got, want)
		}
	}
	sum, mean := digest("data.format=test-bags"), digest("data.format=test-bags", "model.pooling=mean")
	if weighted := digest("data.format=test-weighted"); sum == want || sum == mean || sum == weighted {
		t.Errorf("digests of single ids %s, sums %s, means %s and weighted sums %s must differ", want, sum, mean, weighted)
	}
}

// TestSharedTable checks that single ids of a shared table train to the same bits in all modes, and
// to other bits than those of two tables.
func TestSharedTable(t *testing.T) {
	sets := append(shape, "data.format=test-single", `model.table_of=["a", "b", "a"]`, "model.tables=[40, 7]")
	traintest.Features(t, sets...)
	if traintest.Digest(t, sets...) == traintest.Digest(t, append(shape, "data.format=test-single", "model.tables=[40, 7, 40]")...) {
		t.Error("two features share a table, and train as if each had its own")
	}
}

// TestBagsInCSV trains on text whose fields have several ids, and on the record file of it.
func TestBagsInCSV(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bags.csv")
	var b strings.Builder
	b.WriteString("label,d0,d1,d2,c0,c1,c2\n")
	for i := range 120 {
		fmt.Fprintf(&b, "%d,%d,1,%d,a%d|b%d:0.5,x%d,%s\n", i%2, i%7, i%5, i%9, i%4, i%3, strings.Repeat("|z", i%4))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	sets := append(shape, "data.train=["+strconv.Quote(path)+"]", "data.eval=["+strconv.Quote(path)+"]", "data.csv.separator=|",
		`data.csv.bags=["c0", "c2"]`)
	weighted := append(slices.Clone(sets), "data.csv.weighted=true")
	traintest.Features(t, weighted...)
	if traintest.Digest(t, sets...) == traintest.Digest(t, weighted...) {
		t.Error("weights change nothing")
	}
}

// TestSampleWeights trains on samples with weights: weights of 1 change no bit, and others train to the same bits in all modes.
func TestSampleWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.csv")
	var b strings.Builder
	b.WriteString("label,one,w,d0,d1,d2,c0,c1,c2\n")
	for i := range 120 {
		fmt.Fprintf(&b, "%d,1,%v,%d,1,%d,a%d,x%d,z%d\n", i%2, float64(i%9)/4, i%7, i%5, i%9, i%3, i%11)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	sets := append(shape, "data.train=["+strconv.Quote(path)+"]")
	weighted := append(slices.Clone(sets), "data.csv.weight=w")
	traintest.Features(t, weighted...)
	plain := traintest.Digest(t, sets...)
	if one := traintest.Digest(t, append(slices.Clone(sets), "data.csv.weight=one")...); one != plain {
		t.Errorf("weights of 1: digest %s, want %s", one, plain)
	}
	if traintest.Digest(t, weighted...) == plain {
		t.Error("weights change nothing")
	}
	one := traintest.DigestOn(t, 1, weighted...)
	if read := traintest.DigestOn(t, 2, append(weighted, "ranks.readers=1")...); read != one {
		t.Errorf("with a reader: digest %s, want %s", read, one)
	}
}
