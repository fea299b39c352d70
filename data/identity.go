package data

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
)

// Identity identifies the data that a run reads, independent of the folders and names of
// the files. Two data sets with the same identity are taken for equal. The order of files
// counts, as samples are numbered in it. An identity is cheap: only the ends of large
// files are read, so a change in the middle that keeps the size is not found.
type Identity struct {
	Samples int64          `json:"samples,omitempty"` // in one pass; 0: not counted, or endless
	Files   []FileIdentity `json:"files,omitempty"`   // none: synthetic data
	Topic   string         `json:"topic,omitempty"`   // in place of files: its name, without brokers, and its partitions
	Split   string         `json:"split,omitempty"`   // the part of the files that is evaluation data, or is left out; empty: there is none
}

// FileIdentity is the part of one file.
type FileIdentity struct {
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"` // of the first and the last identityBytes
}

// identityBytes is how much of a file's head and tail is read: together all of a small one.
const identityBytes = 1 << 20

// Identify reads the identity of the files that names mean (ListFiles), which the caller
// completes with the number of samples.
func Identify(e env.Env, names []string) (Identity, error) {
	var id Identity
	files, err := ListFiles(e, names)
	if err != nil {
		return id, err
	}
	for _, name := range files {
		var f FileIdentity
		if err := e.Do("identify "+name, func() (err error) {
			f, err = identify(name)
			return err
		}); err != nil {
			return Identity{}, openErr(name, err)
		}
		id.Files = append(id.Files, f)
	}
	return id, nil
}

func identify(name string) (id FileIdentity, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return id, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return id, err
	}
	if !info.Mode().IsRegular() {
		return id, errors.New("it is not a regular file")
	}
	id.Bytes = info.Size()
	sum := xxh3.New()
	head := min(id.Bytes, identityBytes)
	tail := max(head, id.Bytes-identityBytes)
	for _, part := range []*io.SectionReader{io.NewSectionReader(f, 0, head), io.NewSectionReader(f, tail, id.Bytes-tail)} {
		n, err := io.Copy(sum, part)
		if err == nil && n < part.Size() {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return id, err
		}
	}
	id.XXH3 = fmt.Sprintf("%016x", sum.Sum64())
	return id, nil
}

// String is the identity on one line: "100 samples: 16000 bytes 0123456789abcdef".
func (id Identity) String() string {
	var parts []string
	for _, f := range id.Files {
		parts = append(parts, fmt.Sprintf("%d bytes %s", f.Bytes, f.XXH3))
	}
	text := strings.Join(parts, ", ")
	if id.Split != "" {
		text += " split at " + id.Split
	}
	switch {
	case id.Topic != "":
		return "topic " + id.Topic
	case len(parts) == 0:
		return "none"
	case id.Samples > 0:
		return fmt.Sprintf("%d samples: %s", id.Samples, text)
	default:
		return text
	}
}
