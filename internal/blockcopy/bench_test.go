package blockcopy

import (
	"fmt"
	"testing"
)

func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{256 << 10, 8 << 20} {
		dst, src := make([]byte, n), make([]byte, n)
		for name, f := range map[string]func(dst, src []byte){
			"copy": func(d, s []byte) { copy(d, s) }, "move": move, "stream": stream,
		} {
			b.Run(fmt.Sprintf("%s/%dK", name, n>>10), func(b *testing.B) {
				b.SetBytes(int64(n))
				for range b.N {
					f(dst, src)
				}
			})
		}
	}
}
