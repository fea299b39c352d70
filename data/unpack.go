package data

import (
	"bufio"
	"errors"
	"io"

	"github.com/ecrec/ecrec/internal/inflate"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of a zstd stream, the limit of the command zstd without
// --long. The decompressor needs that much memory.
const maxWindow = 128 << 20

// unpackGzip reads one or more gzip members as one text.
func unpackGzip(in *countedFile) (textUnpacker, error) { return gzipText{inflate.NewReader(in)}, nil }

type gzipText struct{ *inflate.Reader }

func (r gzipText) inputBytes() int64 { return r.InputBytes() }
func (r gzipText) Close() error      { return nil }

// unpackZstd reads one or more zstd frames as one text. It starts no goroutines.
func unpackZstd(in *countedFile) (textUnpacker, error) {
	buffer := bufio.NewReaderSize(in, inputBytes)
	r, err := zstd.NewReader(buffer, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return zstdText{r.IOReadCloser(), in, buffer}, nil
}

// inputBytes is how much of a file is read at a time.
const inputBytes = 256 << 10

// zstdText counts the bytes of the file, and replaces errors that need a remedy of their own.
type zstdText struct {
	io.ReadCloser
	in     *countedFile
	buffer *bufio.Reader
}

func (r zstdText) inputBytes() int64 { return r.in.off - int64(r.buffer.Buffered()) }

func (r zstdText) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = errors.New("its window is larger than 128 MiB; compress it again without --long")
	}
	return n, err
}
