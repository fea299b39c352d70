package directio

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zeebo/xxh3"
	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWriteThenRead writes and reads back files and pieces of many sizes, on a disk and in
// memory, which may refuse direct I/O.
func TestWriteThenRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	sizes := []int{0, 1, align - 1, align, BlockBytes - 1, BlockBytes, BlockBytes + 1, 3*BlockBytes + align, 5*BlockBytes + 17}
	for _, size := range append(sizes, rnd.IntN(4*BlockBytes), rnd.IntN(9*BlockBytes)) {
		for _, dir := range []string{t.TempDir(), memoryDir(t)} {
			want := make([]byte, size)
			for i := range want {
				want[i] = byte(rnd.Uint32())
			}
			path := filepath.Join(dir, "f")
			slack := rnd.IntN(2 * BlockBytes)
			sum := write(t, path, want, slack, rnd)
			if sum != xxh3.Hash(want) {
				t.Fatalf("size %d: sum %x, want %x", size, sum, xxh3.Hash(want))
			}
			got := read(t, path, slack, rnd)
			if !bytes.Equal(got, want) {
				t.Fatalf("size %d, slack %d: read something else", size, slack)
			}
			os.Remove(path)
		}
	}
}

// memoryDir returns a folder in memory, if there is one.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "directio-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func write(t *testing.T, path string, data []byte, slack int, rnd *rand.Rand) uint64 {
	t.Helper()
	w, err := Create(env.Real(), path, int64(len(data)), slack)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for len(data) > 0 {
		room := w.Room()
		if len(room) < slack {
			t.Fatalf("room for %d bytes, want %d", len(room), slack)
		}
		n := min(1+rnd.IntN(len(room)), len(data))
		copy(room, data[:n])
		if err := w.Advance(n); err != nil {
			t.Fatal(err)
		}
		data = data[n:]
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func read(t *testing.T, path string, slack int, rnd *rand.Rand) []byte {
	t.Helper()
	r, err := Open(env.Real(), path, slack)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all, keep []byte
	for {
		b, err := r.Next(keep)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n := rnd.IntN(min(slack, len(b)) + 1)
		if r.got == r.size {
			n = 0
		}
		all, keep = append(all, b[:len(b)-n]...), b[len(b)-n:]
	}
	if r.Sum() != xxh3.Hash(all) || r.Size() != int64(len(all)) {
		t.Fatalf("sum %x of %d bytes, want %x of %d", r.Sum(), r.Size(), xxh3.Hash(all), len(all))
	}
	return all
}

func TestAWriterThatFailsLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, given := range []int{0, 5, 3 * BlockBytes} {
		w, err := Create(env.Real(), filepath.Join(dir, "f"), 2*BlockBytes, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, werr := w.Write(make([]byte, given))
		if _, err := w.Close(); err == nil {
			t.Errorf("%d bytes of %d gave no error (%v)", given, 2*BlockBytes, werr)
		}
		w.Abort()
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("folder holds %v", entries)
		}
	}
	// A file larger than any disk is refused before a byte is written.
	if _, err := Create(env.Real(), filepath.Join(dir, "f"), 1<<43, 0); err == nil {
		t.Error("8 TiB were reserved")
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); !os.IsNotExist(err) {
		t.Errorf("the file is there (%v)", err)
	}
}

func TestReadingCanEndEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 9*BlockBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Open(env.Real(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedDirectIO checks that direct I/O that a file system refuses at the first read or write is turned off, also if several
// goroutines notice it at once.
func TestRefusedDirectIO(t *testing.T) {
	f, err := OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !Enabled(f) {
		t.Skip("this file system has no direct I/O")
	}
	refused := syscall.EINVAL
	if err := Do(f, func() error { return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) || !Enabled(f) {
		t.Errorf("another error: %v, direct I/O %v", err, Enabled(f))
	}
	err = Do(f, func() error {
		if !Enabled(f) {
			return nil
		}
		if err := Do(f, func() error { // another goroutine, at the same time
			if Enabled(f) {
				return refused
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		return refused
	})
	if err != nil || Enabled(f) {
		t.Errorf("%v, direct I/O %v", err, Enabled(f))
	}
	if err := Do(f, func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("an error of other causes: %v", err)
	}
}
