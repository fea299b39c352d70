package blockcopy

// move copies len(src) bytes.
//
//go:noescape
func move(dst, src []byte)
