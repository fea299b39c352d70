package kernels

import "fmt"

// A broken precondition is a bug of this module, not an error of the user: these
// checks panic.

// floatsOf views b as float32. It panics if b is not host memory.
func floatsOf(op, name string, b Buffer) []float32 {
	checkHost(op, name, b)
	return HostView[float32](b)
}

// indexesOf views b as int32. It panics unless b is n int32 in host memory.
func indexesOf(op, name string, b Buffer, n int) []int32 {
	checkHost(op, name, b)
	v := HostView[int32](b)
	if len(v) != n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d indexes, want %d", op, name, len(v), n))
	}
	return v
}

// elementsOf views m's buffer as float32. It panics unless m is (rows, cols) and
// inside the buffer.
func elementsOf(op, name string, m Matrix, rows, cols int) []float32 {
	if !checkMatrix(op, name, m, rows, cols) {
		return nil
	}
	return floatsOf(op, name, m.Buf)
}

// checkMatrix panics unless m is (rows, cols) and inside its buffer. It reports whether m
// has any elements.
func checkMatrix(op, name string, m Matrix, rows, cols int) bool {
	if m.Rows != rows || m.Cols != cols {
		panic(fmt.Sprintf("kernels: %s: %s is (%d, %d), want (%d, %d)", op, name, m.Rows, m.Cols, rows, cols))
	}
	if rows == 0 || cols == 0 {
		return false
	}
	if need := (rows-1)*m.Stride + cols; m.Stride < cols || need > m.Buf.Floats() {
		panic(fmt.Sprintf("kernels: %s: %s is (%d, %d) of stride %d in a buffer of %d floats", op, name, rows, cols, m.Stride, m.Buf.Floats()))
	}
	return true
}

func checkHost(op, name string, b Buffer) {
	if !b.host && b.bytes > 0 {
		panic(fmt.Sprintf("kernels: %s: %s is another device's memory", op, name))
	}
}

// checkIndexes panics unless all of index are in [0, limit). The check costs a third
// of a nanosecond per index; the row that an index names costs tens.
func checkIndexes(op, name string, index []int32, limit int) {
	var top uint32
	for _, x := range index {
		top = max(top, uint32(x))
	}
	if len(index) > 0 && int(top) >= limit {
		panic(fmt.Sprintf("kernels: %s: %s holds %d, outside [0, %d)", op, name, int32(top), limit))
	}
}

// checkFactors panics unless there are no factors or one for each index.
func checkFactors(op string, factors []byte, index Buffer) {
	if n := index.Floats(); len(factors) != 0 && len(factors) != n {
		panic(fmt.Sprintf("kernels: %s: %d factors for %d rows", op, len(factors), n))
	}
}

// checkStarts panics unless start ascends from 0.
func checkStarts(op string, start []int32) {
	for i := 1; i < len(start); i++ {
		if start[i] < start[i-1] {
			panic(fmt.Sprintf("kernels: %s: segment %d ends at %d before it starts at %d", op, i-1, start[i], start[i-1]))
		}
	}
	if len(start) > 0 && start[0] != 0 {
		panic(fmt.Sprintf("kernels: %s: the first segment starts at %d", op, start[0]))
	}
}
