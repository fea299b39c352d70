package kernels

import "github.com/ecrec/ecrec/internal/f32"

func (s *stream) Linear(y, x, w Matrix, b Buffer, act Activation) {
	linearPlain(y, x, w, b, act)
}

func (s *stream) LinearGradInput(dx, dy, w, gate Matrix) {
	linearGradInputPlain(dx, dy, w, gate)
}

func (s *stream) LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	linearGradWeightPlain(dw, db, dy, x)
}

func linearPlain(y, x, w Matrix, b Buffer, act Activation) {
	yv, xv, wv, bv := HostView[float32](y.Buf), HostView[float32](x.Buf), HostView[float32](w.Buf), HostView[float32](b)
	for i := range y.Rows {
		for j := range y.Cols {
			var sum float32
			for k := range x.Cols {
				sum = f32.FMA(xv[i*x.Stride+k], wv[j*w.Stride+k], sum)
			}
			if bv != nil {
				sum += bv[j]
			}
			if act == ReLU && !(sum > 0) {
				sum = 0
			}
			yv[i*y.Stride+j] = sum
		}
	}
}

func linearGradInputPlain(dx, dy, w, gate Matrix) {
	dxv, dyv, wv, gv := HostView[float32](dx.Buf), HostView[float32](dy.Buf), HostView[float32](w.Buf), HostView[float32](gate.Buf)
	for i := range dx.Rows {
		for j := range dx.Cols {
			var sum float32
			for k := range dy.Cols {
				sum = f32.FMA(dyv[i*dy.Stride+k], wv[k*w.Stride+j], sum)
			}
			if gv != nil && !(gv[i*gate.Stride+j] > 0) {
				sum = 0
			}
			dxv[i*dx.Stride+j] = sum
		}
	}
}

func linearGradWeightPlain(dw Matrix, db Buffer, dy, x Matrix) {
	dwv, dyv, xv, dbv := HostView[float32](dw.Buf), HostView[float32](dy.Buf), HostView[float32](x.Buf), HostView[float32](db)
	for i := range dw.Rows {
		for j := range dw.Cols {
			var sum float32
			for k := range dy.Rows {
				sum = f32.FMA(dyv[k*dy.Stride+i], xv[k*x.Stride+j], sum)
			}
			dwv[i*dw.Stride+j] = sum
		}
	}
	for i := range dbv {
		var sum float32
		for k := range dy.Rows {
			sum += dyv[k*dy.Stride+i]
		}
		dbv[i] = sum
	}
}
