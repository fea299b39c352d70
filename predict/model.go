package predict

import (
	"fmt"
	"io"
	"slices"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
)

// Model is a model in memory, without optimizer state.
type Model struct {
	*Form
	dense []float32      // the dense parameters and statistics, in the order of Form.DenseNames
	rows  kernels.Matrix // (rows of all tables, width)
}

// Load reads the model that a config describes: from a safetensors file, or from the checkpoint in
// a folder. One of the two is empty.
func Load(e env.Env, cfg *config.Config, file, folder string) (m *Model, err error) {
	m = new(Model)
	if m.Form, err = NewForm(cfg); err != nil {
		return nil, err
	}
	if err = m.checkRows(); err != nil {
		return nil, err
	}
	m.dense = make([]float32, m.DenseFloats())
	total := int(m.total)
	buf, err := m.dev.Alloc(total*m.width*4, kernels.Working)
	if err != nil {
		return nil, fmt.Errorf("predict: %d rows of %d bytes: %w", total, 4*m.width, err)
	}
	m.rows = kernels.Mat(buf, total, m.width)
	if file != "" {
		err = m.loadFile(e, file)
	} else {
		err = m.loadCheckpoint(e, folder)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// CopyRows implements Rows.
func (m *Model) CopyRows(dst []float32, rows []int64) error {
	all := kernels.HostView[float32](m.rows.Buf)
	for i, row := range rows {
		copy(dst[i*m.width:(i+1)*m.width], all[row*int64(m.width):])
	}
	return nil
}

// Close frees the rows.
func (m *Model) Close() { m.dev.Free(m.rows.Buf) }

func (m *Model) loadFile(e env.Env, path string) error {
	return e.Do("read "+path, func() error {
		f, err := safetensors.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var specs []safetensors.Spec
		for _, t := range f.Tensors() {
			specs = append(specs, t.Spec)
		}
		in, err := m.newInput(path, specs)
		if err != nil {
			return err
		}
		buffer := make([]byte, 1<<20)
		for _, t := range f.Tensors() {
			if _, err := io.CopyBuffer(struct{ io.Writer }{in}, f.Reader(t), buffer); err != nil {
				return fmt.Errorf("%s: %s: %w", path, t.Name, err)
			}
		}
		return f.Verify()
	})
}

func (m *Model) loadCheckpoint(e env.Env, path string) error {
	c, err := checkpoint.Open(e, path)
	if err != nil {
		return err
	}
	in, err := m.newInput(path, c.Specs())
	if err != nil {
		return err
	}
	return c.WriteTensors(in)
}

// input receives the bytes of all tensors of a file, one after the other.
type input struct {
	m     *Model
	to    []target // of each tensor
	begun int64    // bytes received of the first of to
}

// target is the place of a tensor in memory: runs of columns floats, stride floats apart.
type target struct {
	memory          []float32
	columns, stride int
	bytes           int64
}

// newInput compares the tensors of a file with those of the model.
func (m *Model) newInput(path string, specs []safetensors.Spec) (*input, error) {
	places := map[string]target{}
	shapes := map[string][]int64{}
	add := func(name string, shape []int64, t target) {
		t.bytes = 4
		for _, n := range shape {
			t.bytes *= n
		}
		if t.columns == t.stride { // without gaps
			t.columns, t.stride = int(t.bytes/4), int(t.bytes/4)
		}
		places[name], shapes[name] = t, shape
	}
	at := 0
	for _, t := range append(slices.Clip(m.shape.Tensors), m.shape.Statistics...) {
		add(t.Name, t.Shape(), target{memory: m.dense[at : at+t.Len()], columns: t.Len(), stride: t.Len()})
		at += t.Len()
	}
	floats, column := kernels.HostView[float32](m.rows.Buf), 0
	for _, part := range m.shape.Row {
		for t, n := range m.cfg.Model.TableRows() {
			add(part.Tensor(t), []int64{n, int64(part.Width)},
				target{memory: floats[m.base[t]*int64(m.width)+int64(column):], columns: part.Width, stride: m.width})
		}
		column += part.Width
	}
	in := &input{m: m}
	for _, s := range specs {
		want, ok := shapes[s.Name]
		if !ok {
			return nil, config.Errorf("%s: tensor %s, which the model of this config does not have", path, s.Name)
		}
		if s.Type != safetensors.F32 && s.Type != "" || !slices.Equal(s.Shape, want) {
			return nil, config.Errorf("%s: %s is %s %v, the model of this config has F32 %v", path, s.Name, s.Type, s.Shape, want)
		}
		in.to = append(in.to, places[s.Name])
	}
	if len(specs) != len(shapes) {
		return nil, config.Errorf("%s: %d tensors, the model of this config has %d", path, len(specs), len(shapes))
	}
	return in, nil
}

// Write implements io.Writer.
func (in *input) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		t := &in.to[0]
		row, at := in.begun/int64(4*t.columns), int(in.begun%int64(4*t.columns))
		run := min(len(b), 4*t.columns-at)
		to := kernels.BytesOf(t.memory[row*int64(t.stride):][:t.columns])
		copy(to[at:], b[:run])
		b = b[run:]
		if in.begun += int64(run); in.begun == t.bytes {
			in.to, in.begun = in.to[1:], 0
		}
	}
	return n, nil
}
