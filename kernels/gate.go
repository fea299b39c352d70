package kernels

import "fmt"

// GateReLU clears the gradient where the ReLU's output y is not positive.
func (s *stream) GateReLU(dy, y Matrix) {
	if dy.Rows != y.Rows || dy.Cols != y.Cols {
		panic(fmt.Sprintf("kernels: GateReLU of (%d, %d) by (%d, %d)", dy.Rows, dy.Cols, y.Rows, y.Cols))
	}
	d, g := HostView[float32](dy.Buf), HostView[float32](y.Buf)
	for i := range dy.Rows {
		row, gate := d[i*dy.Stride:][:dy.Cols], g[i*y.Stride:][:dy.Cols]
		for j, v := range gate {
			if !(v > 0) {
				row[j] = 0
			}
		}
	}
}
