package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ecrec/ecrec/internal/env"
)

const stdinBuffer = 1 << 20

// stdinText is the text of the standard input.
type stdinText struct {
	env  env.Env
	in   *bufio.Reader
	read int64
	end  bool
}

// openStdin opens the standard input, and waits for its first byte.
func openStdin(e env.Env) (*stdinText, error) {
	r := &stdinText{env: e, in: bufio.NewReaderSize(os.Stdin, stdinBuffer)}
	if err := r.lookAhead(); err != nil {
		return nil, err
	}
	if r.end {
		return nil, fileErr("stdin", "it is empty")
	}
	return r, nil
}

// head returns up to n bytes of the beginning that are there already.
func (r *stdinText) head(n int) []byte {
	head, _ := r.in.Peek(min(r.in.Buffered(), n))
	return head
}

// lookAhead waits for the next byte or the end.
func (r *stdinText) lookAhead() error {
	err := r.env.Do("read stdin", func() error {
		_, err := r.in.Peek(1)
		return err
	})
	if r.end = errors.Is(err, io.EOF); err != nil && !r.end {
		return fmt.Errorf("read stdin: %w", err)
	}
	return nil
}

func (r *stdinText) readText(b []byte) (n int, err error) {
	err = r.env.Do("read stdin", func() error {
		n, err = r.in.Read(b)
		return err
	})
	r.read += int64(n)
	if err != nil {
		return n, fmt.Errorf("read stdin: %w", err)
	}
	return n, r.lookAhead()
}

func (r *stdinText) skipText(int64) (int64, error) { panic("data: the standard input is not skipped") }

func (r *stdinText) textLeft() int64 {
	if r.end {
		return 0
	}
	return math.MaxInt64
}

func (r *stdinText) fileBytes() int64 { return r.read }
func (r *stdinText) closeFile()       {}
