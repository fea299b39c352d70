package uring

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// seeded is a source of random cases that prints its seed.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// draw draws parts of a file of size bytes. The guards around each part must not change.
func draw(rnd *rand.Rand, size int) (parts []Part, guarded [][]byte) {
	for range rnd.IntN(60) {
		at := rnd.IntN(size + 1)
		n := min(rnd.IntN(1<<rnd.IntN(18)), size-at)
		if rnd.IntN(4) == 0 {
			at, n = at/Align*Align, n/Align*Align
		}
		if rnd.IntN(10) == 0 {
			at = size - n
		}
		g := bytes.Repeat([]byte{0xa5}, n+16)
		parts, guarded = append(parts, Part{int64(at), g[8 : 8+n : 8+n]}), append(guarded, g)
	}
	return parts, guarded
}

func compare(t *testing.T, file []byte, parts []Part, guarded [][]byte) {
	t.Helper()
	guard := bytes.Repeat([]byte{0xa5}, 8)
	for i, p := range parts {
		if !bytes.Equal(p.Bytes, file[p.At:][:len(p.Bytes)]) {
			t.Fatalf("part %d, %d bytes at offset %d: other bytes", i, len(p.Bytes), p.At)
		}
		if g := guarded[i]; !bytes.Equal(g[:8], guard) || !bytes.Equal(g[len(g)-8:], guard) {
			t.Fatalf("part %d, %d bytes at offset %d: bytes around it were written", i, len(p.Bytes), p.At)
		}
	}
}

// TestAnyKernel reads through kernels that take requests in parts, complete them in any order and in pieces, and fail for a while.
func TestAnyKernel(t *testing.T) {
	rnd := seeded(t)
	seen := map[string]int{}
	for range 150 {
		file := randomBytes(rnd, 1+rnd.IntN(1<<(1+rnd.IntN(19))))
		k := newFake(t, rnd, file, 1+rnd.IntN(20))
		for range 4 {
			parts, guarded := draw(rnd, len(file))
			if err := k.ring.ReadAll(3, parts); err != nil {
				t.Fatal(err)
			}
			compare(t, file, parts, guarded)
			if len(k.underWay) > 0 || len(k.ring.free) != len(k.ring.pieces) {
				t.Fatalf("%d requests under way, %d blocks of %d free", len(k.underWay), len(k.ring.free), len(k.ring.pieces))
			}
		}
		for what, n := range k.seen {
			seen[what] += n
		}
	}
	t.Logf("%v", seen)
	if len(seen) != 9 {
		t.Errorf("some of it did not happen: %v", seen)
	}
}

// TestEndOfFile checks that a part beyond the end of the file is named, and that the ring can be used after it.
func TestEndOfFile(t *testing.T) {
	rnd := seeded(t)
	for range 200 {
		file := randomBytes(rnd, rnd.IntN(40_000))
		k := newFake(t, rnd, file, 1+rnd.IntN(8))
		parts, guarded := draw(rnd, len(file))
		bad := rnd.IntN(len(parts) + 1)
		beyond := 1 + rnd.IntN(1<<rnd.IntN(16))
		from := rnd.IntN(len(file) + 1)
		parts = slices.Insert(parts, bad, Part{int64(from), make([]byte, len(file)-from+beyond)})
		err := k.ring.ReadAll(3, parts)
		if part := (*PartError)(nil); !errors.As(err, &part) || part.Index != bad || part.At != int64(from) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes beyond %d: %v", beyond, len(file), err)
		}
		parts = slices.Delete(parts, bad, bad+1)
		if err := k.ring.ReadAll(3, parts); err != nil {
			t.Fatal(err)
		}
		compare(t, file, parts, guarded)
	}
}

// TestRefusedInTheMiddle lets the kernel refuse a call while requests are under way, and write to their memory later.
func TestRefusedInTheMiddle(t *testing.T) {
	rnd := seeded(t)
	late := 0
	file := randomBytes(rnd, 300_000)
	for range 100 {
		k := newFake(t, rnd, file, 1+rnd.IntN(20))
		k.refusal = []unix.Errno{unix.EPERM, unix.ENOSYS, unix.EBADF, unix.EACCES, unix.EOPNOTSUPP}[rnd.IntN(5)]
		k.refuseAt = 1 + rnd.IntN(30)
		var parts []Part
		var err error
		for err == nil {
			parts, _ = draw(rnd, len(file))
			err = k.ring.ReadAll(3, parts)
		}
		if part := (*PartError)(nil); !errors.Is(err, ErrRefused) || !errors.Is(err, k.refusal) || errors.As(err, &part) || !k.ended {
			t.Fatalf("the error is %v, want %v", err, k.refusal)
		}
		var before [][]byte
		for _, p := range parts {
			before = append(before, slices.Clone(p.Bytes))
		}
		for _, e := range k.underWay {
			late++
			k.scribble(e)
		}
		for i, p := range parts {
			if !bytes.Equal(p.Bytes, before[i]) {
				t.Fatal("the kernel wrote to a part after the ring was refused")
			}
		}
		if err := k.ring.ReadAll(3, parts); !errors.Is(err, ErrRefused) {
			t.Fatalf("a later call: %v", err)
		}
	}
	if late == 0 {
		t.Error("no request was under way")
	}
}

// TestStuckKernel checks that a kernel that never has memory, or does nothing, is a refusal; one whose reads fail for ever an error of
// the part.
func TestStuckKernel(t *testing.T) {
	for _, err := range []error{unix.EAGAIN, unix.EBUSY, nil} {
		k := newFake(t, seeded(t), make([]byte, 100), 4)
		k.ring.kernel = stuck{err}
		if err := k.ring.ReadAll(3, []Part{{0, make([]byte, 1)}}); !errors.Is(err, ErrRefused) {
			t.Errorf("%v: %v", k.ring.kernel, err)
		}
	}
	k := newFake(t, seeded(t), make([]byte, 100), 4)
	k.always = -int32(unix.EAGAIN)
	if err := k.ring.ReadAll(3, []Part{{0, make([]byte, 1)}, {1, make([]byte, 1)}}); !errors.Is(err, unix.EAGAIN) || errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

type stuck struct{ err error }

func (s stuck) enter(uint32, uint32) (int, error) { return 0, s.err }
func (stuck) release()                            {}

// openRing opens a ring of this machine.
func openRing(t *testing.T) *Ring {
	r, err := Open(Depth)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestThisKernel reads a real file by the kernel of this machine, through the page cache and with O_DIRECT.
func TestThisKernel(t *testing.T) {
	rnd := seeded(t)
	r := openRing(t)
	for _, size := range []int{1, 511, 4096, 5000, 1 << 20, 3_000_001} {
		file := randomBytes(rnd, size)
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, flag := range []int{0, unix.O_DIRECT} {
			f, err := os.OpenFile(path, os.O_RDONLY|flag, 0)
			if err != nil {
				t.Log(err)
				continue
			}
			defer f.Close()
			for range 10 {
				parts, guarded := draw(rnd, size)
				if err := r.ReadAll(int(f.Fd()), parts); err != nil {
					t.Fatal(err)
				}
				compare(t, file, parts, guarded)
			}
			for _, p := range []Part{{int64(size), make([]byte, 1)}, {0, make([]byte, size+1)}, {int64(size + 100_000), make([]byte, 9)},
				{int64(size - 1), make([]byte, 5000)}} {
				err := r.ReadAll(int(f.Fd()), []Part{{0, make([]byte, 1)}, p})
				if part := (*PartError)(nil); !errors.As(err, &part) || part.Index != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("size %d, flag %#x: %d bytes at %d: %v", size, flag, len(p.Bytes), p.At, err)
				}
			}
		}
	}
}

func TestBadArguments(t *testing.T) {
	r := openRing(t)
	for _, at := range []int64{-1, -4096, math.MinInt64, math.MaxInt64} {
		if err := r.ReadAll(0, []Part{{at, make([]byte, 1)}}); !errors.Is(err, os.ErrInvalid) || errors.Is(err, ErrRefused) {
			t.Errorf("offset %d: %v", at, err)
		}
	}
	err := r.ReadAll(1<<20, []Part{{0, nil}, {0, make([]byte, 1)}, {0, make([]byte, 1)}})
	if part := (*PartError)(nil); !errors.As(err, &part) || part.Index != 1 || !errors.Is(err, unix.EBADF) || errors.Is(err, ErrRefused) {
		t.Errorf("a bad descriptor: %v", err)
	}
	if _, err := Open(0); !errors.Is(err, ErrRefused) {
		t.Errorf("no requests under way: %v", err)
	}
	r.Close()
	if err := r.ReadAll(0, nil); !errors.Is(err, ErrRefused) {
		t.Errorf("a closed ring: %v", err)
	}
}
