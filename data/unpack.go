package data

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of a zstd stream, the limit of the command zstd without
// --long. The decompressor needs that much memory.
const maxWindow = 128 << 20

// unpackGzip reads one or more gzip members as one text.
func unpackGzip(in *countedFile) (io.ReadCloser, error) {
	z, err := gzip.NewReader(in.in)
	if err != nil {
		return nil, notEnded(err)
	}
	z.Multistream(false)
	return &gzipText{z, in.in}, nil
}

// gzipText begins each member itself: a header that is cut short in its optional fields looks like the end of the file
// to gzip.Reader.
type gzipText struct {
	*gzip.Reader
	in *bufio.Reader
}

func (r *gzipText) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != io.EOF {
		return n, err
	}
	if _, err := r.in.Peek(1); err != nil {
		return n, err // the end, or an error of the disk
	}
	err = notEnded(r.Reset(r.in))
	r.Multistream(false)
	return n, err
}

// notEnded replaces the end of a file in the middle of something.
func notEnded(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

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
