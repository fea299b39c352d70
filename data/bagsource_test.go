package data

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// bagText is samples as CSV, and the ids and weights of each cell of the columns c, d, e, of which d is
// no bag.
func bagText(r *rand.Rand, samples int) (text string, cells [][]string, weights [][]float32) {
	var b strings.Builder
	b.WriteString("e,label,c,x,d\n") // e precedes c: ids are not in the order of columns
	for range samples {
		var sample [3][]string
		var of [3][]float32
		for f := range sample {
			n := r.IntN(5)
			if f == 1 {
				n = 1
			}
			for range n {
				sample[f], of[f] = append(sample[f], fmt.Sprint("v", r.IntN(50))), append(of[f], float32(r.IntN(8))/4)
			}
		}
		field := func(f int) string {
			var parts []string
			for i, id := range sample[f] {
				if f != 1 {
					id = fmt.Sprintf("%s:%v", id, of[f][i])
				}
				parts = append(parts, id)
			}
			return strings.Join(parts, "|")
		}
		fmt.Fprintf(&b, "%s,%d,%s,%d,%s\n", field(2), r.IntN(2), field(0), r.IntN(100), field(1))
		of[1] = []float32{1}
		cells, weights = append(cells, sample[:]...), append(weights, of[:]...)
	}
	return b.String(), cells, weights
}

func bagOptions(dir string, files ...string) Options {
	return Options{Env: env.Real(), Format: FormatCSV, Files: files, Tables: []int64{31, 7, 1000}, RecordDir: dir, Threads: 2,
		CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"c", "d", "e"}, Separator: '|', Bags: []string{"c", "e"},
			Weighted: true}}
}

// TestBagRecords converts text with bags, and compares samples in any order with the text.
func TestBagRecords(t *testing.T) {
	const samples = 2*bagBlockRecords + 77
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	text, cells, weights := bagText(r, samples)
	path := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tableOf := range [][]int{nil, {0, 1, 0}} {
		o := bagOptions(dir, path)
		if tableOf != nil {
			o.TableOf, o.Tables = tableOf, o.Tables[:2]
		}
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if schema := s.Schema(); s.Len() != samples || schema.Dense != 1 || schema.IDs < 4 || schema.IDs > 6 {
			t.Fatalf("%d samples of %+v", s.Len(), schema)
		}
		schema := s.Schema()
		rows := schema.FeatureRows()
		var b Batch
		for range 20 {
			idx := make([]int64, r.IntN(300))
			for i := range idx {
				idx[i] = r.Int64N(samples)
			}
			if err := s.Read(&b, idx); err != nil {
				t.Fatal(err)
			}
			n := 0
			for i, at := range idx {
				for f := range 3 {
					for p, id := range cells[3*at+int64(f)] {
						if want := uint32(xxh3.HashString(id) % uint64(rows[f])); b.IDs[n] != want || b.Weights[n] != weights[3*at+int64(f)][p] {
							t.Fatalf("sample %d, feature %d, position %d: id %d of weight %v, want %d of %v", at, f, p, b.IDs[n], b.Weights[n],
								want, weights[3*at+int64(f)][p])
						}
						n++
					}
					if b.Offsets[3*i+f+1] != int32(n) {
						t.Fatalf("sample %d, feature %d ends at %d, want %d", at, f, b.Offsets[3*i+f+1], n)
					}
				}
			}
		}
		s.Close()
	}
}

// TestBagRecordResumes interrupts a conversion a few times. It gives the same file as one that is not interrupted.
func TestBagRecordResumes(t *testing.T) {
	dir := t.TempDir()
	text, _, _ := bagText(rand.New(rand.NewPCG(5, 6)), 19*bagBlockRecords)
	header, lines, _ := strings.Cut(text, "\n")
	text = header + "\n" + strings.Repeat(lines, 10)
	path := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	want, part := filepath.Join(dir, "want.rec"), filepath.Join(dir, "got.rec")
	if _, err := Convert(bagOptions(dir, path), want); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	stopped := 0
	for ; ; stopped++ {
		o, calls := bagOptions(dir, path), 0
		o.Progress = func(p Progress) error {
			if calls++; calls > 1 && p.What == "convert" && stopped < 3 {
				return stop
			}
			return nil
		}
		_, err := Convert(o, part)
		if err == nil {
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		st, err := os.Stat(part + ".part")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(part+".part", st.Size()-int64(17*stopped)); err != nil { // a block is cut short
			t.Fatal(err)
		}
	}
	a, errA := os.ReadFile(want)
	b, errB := os.ReadFile(part)
	if errA != nil || errB != nil || !slices.Equal(a, b) || stopped != 3 {
		t.Errorf("%v, %v: after %d interruptions the file has %d bytes, want the same %d", errA, errB, stopped, len(b), len(a))
	}
}

// TestBagRecordDamage checks that a byte that changes is found, wherever it is.
func TestBagRecordDamage(t *testing.T) {
	dir := t.TempDir()
	text, _, _ := bagText(rand.New(rand.NewPCG(7, 8)), 50)
	path, file := filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.rec")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	o := bagOptions(dir, path)
	if _, err := Convert(o, file); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.Format, o.Files = FormatRecord, []string{file}
	read := func() error {
		s, err := Open(o)
		if err != nil {
			return err
		}
		defer s.Close()
		return s.Read(new(Batch), []int64{49, 0})
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(good); at += 1 + at/3000*7 {
		bad := slices.Clone(good)
		bad[at] ^= 4
		if err := os.WriteFile(file, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := read(); !errors.Is(err, ErrInput) {
			t.Fatalf("byte %d of %d is damaged: %v", at, len(good), err)
		}
		at += 40
	}
	for _, size := range []int{0, 100, recordHeaderBytes, len(good) - 9, len(good) - 1} {
		if err := os.WriteFile(file, good[:size], 0o666); err != nil {
			t.Fatal(err)
		}
		if err := read(); !errors.Is(err, ErrInput) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
}

// TestBagFields checks the meaning of fields, and the messages about them.
func TestBagFields(t *testing.T) {
	for _, c := range []struct {
		field, want string
		weights     []float32
	}{
		{"", "", nil},
		{"a", "a", []float32{1}},
		{"a|a|b", "a a b", []float32{1, 1, 1}},
		{"a:2|b:-0.5|c", "a b c", []float32{2, -0.5, 1}},
		{"a||b", "a  b", []float32{1, 1, 1}},
		{"x:y:3", "x:y", []float32{3}},
		{"a:", "the weight after the colon is not a decimal number", nil},
		{"a: ", "the weight after the colon is not a decimal number", nil},
		{"a:b", "the weight after the colon is not a decimal number", nil},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.csv")
		if err := os.WriteFile(path, []byte("label,x,c,d,e\n1,2,"+c.field+",q,\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := Open(bagOptions(dir, path))
		if err != nil {
			if c.weights != nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(c)") {
				t.Errorf("%q: %v", c.field, err)
			}
			continue
		}
		var b Batch
		if err := s.Read(&b, []int64{0}); err != nil {
			t.Fatal(err)
		}
		var want []uint32
		if c.field != "" {
			for _, id := range strings.Split(c.want, " ") {
				want = append(want, uint32(xxh3.HashString(id)%31))
			}
		}
		if n := int(b.Offsets[1]); !slices.Equal(b.IDs[:n], want) || !slices.Equal(b.Weights[:n], c.weights) {
			t.Errorf("%q: ids %v, weights %v, want %v, %v", c.field, b.IDs[:n], b.Weights[:n], want, c.weights)
		}
		s.Close()
	}
	for what, change := range map[string]func(c *CSV){
		"has no effect":          func(c *CSV) { c.Separator = 0 },
		"choose another byte":    func(c *CSV) { c.Separator = ':' },
		"separates fields":       func(c *CSV) { c.Separator, c.Delimiter = ';', ';' },
		"not in data.csv.catego": func(c *CSV) { c.Bags = []string{"x"} },
	} {
		o := bagOptions("")
		change(&o.CSV)
		if err := checkCSV(&o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want one about %q", err, what)
		}
	}
}
