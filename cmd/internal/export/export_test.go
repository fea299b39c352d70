package export

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/model"
)

// small returns a model whose tensors hold their number in each byte.
func small() Model {
	m := Model{Config: model.Config{Kind: "dlrm", Dense: 2, Tables: 3, EmbeddingDim: 4, BottomMLP: []int{4}, TopMLP: []int{3, 1}},
		Features: make([]Feature, 3), Metadata: map[string]string{"ecrec.model": "{}"}}
	shape := model.ShapeOf(m.Config)
	for _, t := range shape.Tensors {
		m.Tensors = append(m.Tensors, safetensors.Spec{Name: t.Name, Shape: t.Shape()})
	}
	for _, p := range shape.Row {
		for t := range m.Config.Tables {
			m.Tensors = append(m.Tensors, safetensors.Spec{Name: p.Tensor(t), Shape: []int64{300, int64(p.Width)}})
		}
	}
	m.Write = func(w io.Writer) error {
		var all []byte
		for i, s := range m.Tensors {
			n, _ := s.Bytes()
			all = append(all, bytes.Repeat([]byte{byte(i + 1)}, int(n))...)
		}
		for len(all) > 0 { // pieces that cross tensors
			n, err := w.Write(all[:min(len(all), 1001)])
			if err != nil {
				return err
			}
			all = all[n:]
		}
		return nil
	}
	return m
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The tensors of a small model are in the file. Those of tables are beside it for a large one, each on its own pages.
func TestTensorsAreWholeOrBeside(t *testing.T) {
	m, dir := small(), t.TempDir()
	whole, beside := filepath.Join(dir, "whole.onnx"), filepath.Join(dir, "beside.onnx")
	if err := writeONNX(whole, m, false); err != nil {
		t.Fatal(err)
	}
	if err := writeONNX(beside, m, true); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 3 {
		t.Errorf("the folder has %v (%v), want two models and the data of one", files, err)
	}
	inWhole, inBeside, rows := read(t, whole), read(t, beside), read(t, DataFile(beside))
	at := 0
	for i, s := range m.Tensors {
		n, _ := s.Bytes()
		data := bytes.Repeat([]byte{byte(i + 1)}, int(n))
		table := strings.HasPrefix(s.Name, "emb_l")
		if !bytes.Contains(inWhole, data) || bytes.Contains(inBeside, data) == table && n > 8 {
			t.Errorf("%s is not where it belongs", s.Name)
		}
		if table {
			at = (at + pageBytes - 1) / pageBytes * pageBytes
			if at+len(data) > len(rows) || !bytes.Equal(rows[at:at+len(data)], data) {
				t.Errorf("%s is not at byte %d of the data", s.Name, at)
			}
			at += len(data)
		}
	}
	if at != len(rows) {
		t.Errorf("the data has %d bytes, want %d", len(rows), at)
	}
}

// A failed export leaves no file.
func TestErrors(t *testing.T) {
	for _, e := range []struct {
		name, want string
		spoil      func(m *Model)
	}{
		{"kind", "cannot be exported", func(m *Model) { m.Config.Kind = "other" }},
		{"more data", "more data", func(m *Model) { m.Tensors = m.Tensors[:3] }},
		{"less data", "less data", func(m *Model) { m.Tensors = append(m.Tensors, m.Tensors[0]) }},
		{"disk", "broken", func(m *Model) { m.Write = func(io.Writer) error { return io.ErrClosedPipe } }},
	} {
		m, dir := small(), t.TempDir()
		write := m.Write
		tensors := m.Tensors
		m.Write = func(w io.Writer) error {
			all := m.Tensors
			m.Tensors = tensors
			defer func() { m.Tensors = all }()
			return write(w)
		}
		e.spoil(&m)
		err := WriteTriton(filepath.Join(dir, "m"), m)
		if err == nil || !strings.Contains(err.Error(), e.want) && e.name != "disk" {
			t.Errorf("%s: %v, want %q", e.name, err, e.want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "m", "1", "*")); len(files) > 0 {
			t.Errorf("%s leaves %v", e.name, files)
		}
	}
}

func TestTriton(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ctr")
	if err := WriteTriton(dir, small()); err != nil {
		t.Fatal(err)
	}
	config := string(read(t, filepath.Join(dir, "config.pbtxt")))
	for _, want := range []string{`name: "dense" data_type: TYPE_FP32 dims: [ 2 ]`, `name: "ids" data_type: TYPE_INT64 dims: [ 3 ]`, `name: "score"`} {
		if !strings.Contains(config, want) {
			t.Errorf("config.pbtxt lacks %s:\n%s", want, config)
		}
	}
	if len(read(t, TritonModel(dir))) == 0 {
		t.Error("the model is empty")
	}
	m := small()
	m.Features = []Feature{{Bag: true, Weighted: true, Mean: true}, {}, {Bag: true}}
	want := `input [
  { name: "dense" data_type: TYPE_FP32 dims: [ 2 ] },
  { name: "ids" data_type: TYPE_INT64 dims: [ 1 ] },
  { name: "ids_0" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "weights_0" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "ids_2" data_type: TYPE_INT64 dims: [ -1 ] }
]`
	if config := string(describeTriton(m)); !strings.Contains(config, want) {
		t.Errorf("with bags config.pbtxt is\n%s", config)
	}
	m = small()
	m.Config.Dense = 0
	if config := string(describeTriton(m)); strings.Contains(config, "dense") || !strings.Contains(config, `name: "ids"`) {
		t.Errorf("without dense features config.pbtxt is\n%s", config)
	}
}
