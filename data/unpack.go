package data

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of a zstd stream, the limit of the command zstd without
// --long. The decompressor needs that much memory.
const maxWindow = 128 << 20

// unpackGzip reads one or more gzip members as one text.
func unpackGzip(in *countedFile) (io.ReadCloser, error) { return gzip.NewReader(in.in) }

// unpackZstd reads one or more zstd frames as one text. It starts no goroutines.
func unpackZstd(in *countedFile) (io.ReadCloser, error) {
	r, err := zstd.NewReader(in.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return zstdText{r.IOReadCloser()}, nil
}

// zstdText replaces errors that need a remedy of their own.
type zstdText struct{ io.ReadCloser }

func (r zstdText) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = errors.New("its window is larger than 128 MiB; compress it again without --long")
	}
	return n, err
}
