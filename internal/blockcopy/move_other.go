//go:build !amd64

package blockcopy

func move(dst, src []byte)   { copy(dst, src) }
func stream(dst, src []byte) { copy(dst, src) }
