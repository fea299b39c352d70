package kernels

import "testing"

func TestSpread(t *testing.T) {
	b := HostBuffer(make([]float32, 3*2048+2*16))
	for _, c := range []struct{ rows, cols, stride int }{{3, 1023, 1023}, {3, 1024, 1040}, {3, 2048, 2064}, {2, 0, 0}, {1, 512, 512}} {
		m := Spread(b, c.rows, c.cols)
		if m.Rows != c.rows || m.Cols != c.cols || m.Stride != c.stride || SpreadStride(c.cols) != c.stride {
			t.Errorf("a matrix (%d, %d) has stride %d, want %d", m.Rows, m.Cols, m.Stride, c.stride)
		}
		if want := (c.rows-1)*c.stride + c.cols; m.Buf.Floats() != want {
			t.Errorf("a matrix (%d, %d) takes %d floats, want %d", c.rows, c.cols, m.Buf.Floats(), want)
		}
	}
	if m := Spread(b, 0, 1024); m.Rows != 0 || m.Buf.Floats() != 0 {
		t.Errorf("a matrix without rows is %+v", m)
	}
	b.host = false
	if m := Spread(b, 3, 1024); m.Stride != 1024 {
		t.Errorf("a matrix that the CPU does not address has stride %d, want 1024", m.Stride)
	}
}
