package kernels

import "testing"

// BenchmarkXorInit draws the initial weights of rows and adds them, as a rebuild does for each row that it reads or writes.
func BenchmarkXorInit(b *testing.B) {
	const rows, width, state = 8192, 16, 16
	dev, err := NewCPU(CPUOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s := dev.Stream(1)
	defer s.Close()
	m, slots := Mat(HostBuffer(make([]float32, rows*(width+state))), rows, width+state), make([]int32, rows)
	for i := range slots {
		slots[i] = int32(i)
	}
	init := RowInit{Seed: 1, Owners: 5, Base: []int64{0, 5 * rows}, Scale: []float32{0.1}, Width: width}
	b.SetBytes(rows * (width + state) * 4)
	for range b.N {
		s.XorInit(m, HostBuffer(slots), init)
	}
}
