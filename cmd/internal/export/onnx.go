package export

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ecrec/ecrec"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/onnx"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/model"
)

// maxWhole is the size of the largest model, in bytes, that is one file.
const maxWhole = 256 << 20

// pageBytes is the alignment of tensors in a file of external data, so that a reader can map them.
const pageBytes = 4096

// Model is a model to export.
type Model struct {
	Config   model.Config
	Features []Feature // of the config
	Metadata map[string]string
	Tensors  []safetensors.Spec
	// Write writes the data of Tensors, in their order.
	Write func(io.Writer) error
}

// bytes is the size of all tensors.
func (m *Model) bytes() (total int64) {
	for _, s := range m.Tensors {
		n, _ := s.Bytes() // the specs are of a file or a checkpoint that was checked
		total += n
	}
	return total
}

// DataFile is the file of external data of an ONNX file.
func DataFile(path string) string { return path + ".data" }

// WriteONNX writes a model to an ONNX file, and the rows of a large one to its DataFile.
func WriteONNX(path string, m Model) error { return writeONNX(path, m, m.bytes() > maxWhole) }

func writeONNX(path string, m Model, external bool) error {
	graph, ok := model.GraphOf(m.Config)
	if !ok {
		return fmt.Errorf("models of kind %q cannot be exported to ONNX; export safetensors", m.Config.Kind)
	}
	t := translateGraph(graph, m.Config.Dense, m.Features)
	if err := addTensors(t, path, m, external, tablesOf(graph)); err != nil {
		return err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := t.WriteTo(f, m.Config.Kind, ecrec.Version(), m.Metadata); err != nil {
		return err
	}
	return f.Commit()
}

// tablesOf lists the tensors of tables that a graph uses.
func tablesOf(g model.Graph) map[string]bool {
	tables := map[string]bool{}
	for _, op := range g.Ops {
		for _, name := range op.Tensors {
			if op.Kind == model.OpGather {
				tables[name] = true
			}
		}
	}
	return tables
}

// addTensors adds the model's tensors, whose tables go to the data file if external.
func addTensors(t *translator, path string, m Model, external bool, tables map[string]bool) error {
	s := &splitter{}
	var file *atomicfile.File
	if external {
		var err error
		if file, err = atomicfile.Create(DataFile(path)); err != nil {
			return err
		}
		defer file.Abort()
	}
	var inside []*piece
	at := int64(0)
	for _, spec := range m.Tensors {
		n, err := spec.Bytes()
		if err != nil {
			return err
		}
		p := &piece{spec: spec, left: n}
		s.pieces = append(s.pieces, p)
		if !external || !tables[spec.Name] {
			p.data = make([]byte, 0, n)
			inside = append(inside, p)
			continue
		}
		p.file, p.pad = file, int(-at&(pageBytes-1))
		at += int64(p.pad)
		t.AddExternal(spec.Name, onnx.Float, spec.Shape, filepath.Base(DataFile(path)), at, n)
		at += n
	}
	if err := m.Write(s); err != nil {
		return err
	}
	if len(s.pieces) > 0 && s.skipFull() {
		return errors.New("the model has less data than its tensors need")
	}
	for _, p := range inside {
		t.AddTensor(p.spec.Name, onnx.Float, p.spec.Shape, p.data)
	}
	if external {
		return file.Commit()
	}
	return nil
}

// piece is a tensor of a splitter.
type piece struct {
	spec safetensors.Spec
	left int64     // bytes not yet written
	data []byte    // without a file
	file io.Writer // nil: the data is in memory
	pad  int       // bytes before the data in the file
}

// splitter is a writer that cuts a stream of tensors into pieces.
type splitter struct{ pieces []*piece }

// skipFull drops the pieces that are complete, and reports whether one is left.
func (s *splitter) skipFull() bool {
	for len(s.pieces) > 0 && s.pieces[0].left == 0 {
		s.pieces = s.pieces[1:]
	}
	return len(s.pieces) > 0
}

func (s *splitter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if !s.skipFull() {
			return n, errors.New("the model has more data than its tensors need")
		}
		p := s.pieces[0]
		part := b[n:][:min(int64(len(b)-n), p.left)]
		if p.file == nil {
			p.data = append(p.data, part...)
		} else {
			if p.pad > 0 {
				if _, err := p.file.Write(make([]byte, p.pad)); err != nil {
					return n, err
				}
				p.pad = 0
			}
			if _, err := p.file.Write(part); err != nil {
				return n, err
			}
		}
		p.left -= int64(len(part))
		n += len(part)
	}
	return n, nil
}
