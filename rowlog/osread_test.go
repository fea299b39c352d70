package rowlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/uring"
)

// accesses are all ways to read a file.
var accesses = []Access{{}, {NoRing: true}, {NoDirect: true}, {true, true}}

// folders opens folders on a disk and, if there is one, in memory, for each way to read.
func folders(t *testing.T) (all []*OSDir) {
	for _, place := range []string{os.TempDir(), "/dev/shm"} {
		path, err := os.MkdirTemp(place, "rowlog-test-*")
		if err != nil {
			t.Log(err)
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(path) })
		for i, a := range accesses {
			d, err := OpenDir(env.Real(), fmt.Sprintf("%s/%d", path, i), a)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			all = append(all, d)
		}
	}
	return all
}

// fileOf makes a file with a content, of any length, and opens it.
func fileOf(t *testing.T, d *OSDir, number uint64, content []byte) File {
	t.Helper()
	if err := os.WriteFile(d.name(number), content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// drawParts draws parts of a file.
func drawParts(rnd *rand.Rand, size, most int) (parts []Part) {
	for range rnd.IntN(most) {
		at := rnd.IntN(size + 1)
		n := min(rnd.IntN(1<<rnd.IntN(20)), size-at)
		if rnd.IntN(10) == 0 {
			at = size - n
		}
		parts = append(parts, Part{int64(at), make([]byte, n)})
	}
	return parts
}

func checkParts(content []byte, parts []Part) error {
	for i, p := range parts {
		if !bytes.Equal(p.Bytes, content[p.At:][:len(p.Bytes)]) {
			return fmt.Errorf("part %d, %d bytes at offset %d: other bytes", i, len(p.Bytes), p.At)
		}
	}
	return nil
}

// TestWaysOfReading reads random parts of files in all ways, and parts that end beyond the file.
func TestWaysOfReading(t *testing.T) {
	rnd := seeded(t)
	all := folders(t)
	for number, size := range []int{0, 1, 511, 512, 4096, 70_000, 2_000_003} {
		content := randomBytes(rnd, size)
		for _, d := range all {
			f := fileOf(t, d, uint64(number), content)
			direct := directio.Enabled(f.(*osFile).f)
			for range 6 {
				parts := drawParts(rnd, size, 40)
				if err := errors.Join(f.ReadAll(parts), checkParts(content, parts)); err != nil {
					t.Fatalf("%s: %v", d.Way(), err)
				}
				bad := rnd.IntN(len(parts) + 1)
				at := rnd.IntN(size + 1)
				beyond := append(parts[:bad:bad], Part{int64(at), make([]byte, size-at+1+rnd.IntN(1<<rnd.IntN(19)))})
				err := f.ReadAll(append(append(beyond, parts[bad:]...), Part{int64(size), make([]byte, 1)})) // the first of two is named
				if part := (*uring.PartError)(nil); !errors.As(err, &part) || part.Index != bad || part.At != int64(at) ||
					!errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), d.name(uint64(number))) {
					t.Fatalf("%s: size %d, %d bytes at offset %d: %v", d.Way(), size, len(beyond[bad].Bytes), at, err)
				}
			}
			if err := f.ReadAll([]Part{{-4096, make([]byte, 1)}}); !errors.Is(err, os.ErrInvalid) {
				t.Errorf("%s: a negative offset: %v", d.Way(), err)
			}
			if directio.Enabled(f.(*osFile).f) != direct {
				t.Fatalf("%s: size %d: direct I/O was turned off", d.Way(), size)
			}
			_ = f.Close()
			if err := f.ReadAll([]Part{{0, make([]byte, 1)}}); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: a closed file: %v", d.Way(), err)
			}
		}
	}
	for _, d := range all { // reading ends soon after an error
		f := fileOf(t, d, 99, make([]byte, 9000))
		parts, bytes := []Part{{9000, make([]byte, 1)}}, bytes.Repeat([]byte{1}, 200_000)
		for i := range bytes {
			parts = append(parts, Part{0, bytes[i : i+1]})
		}
		if err := f.ReadAll(parts); !errors.Is(err, io.ErrUnexpectedEOF) || bytes[len(bytes)-1] == 0 {
			t.Errorf("%s: all parts were read after the first failed: %v", d.Way(), err)
		}
	}
	for i, d := range all {
		way, a := d.Way(), accesses[i%len(accesses)]
		t.Log(way)
		if a.NoRing && !strings.HasPrefix(way, "preads (io_uring is switched off), ") || a.NoDirect && !strings.HasSuffix(way, ", page cache") {
			t.Errorf("%+v: %s", a, way)
		}
	}
	f := fileOf(t, all[0], 100, make([]byte, 9000))
	_ = directio.Do(f.(*osFile).f, func() error { return syscall.EINVAL }) // as a file system that refuses direct I/O only now
	if err := f.ReadAll([]Part{{1, make([]byte, 8000)}}); err != nil || !strings.HasSuffix(all[0].Way(), ", page cache") {
		t.Errorf("after direct I/O was refused: %s, %v", all[0].Way(), err)
	}
}

// TestManyReaders reads files of one folder on many goroutines.
func TestManyReaders(t *testing.T) {
	seed := seeded(t).Uint64()
	for _, d := range folders(t) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		contents := [][]byte{randomBytes(rnd, 300_000), randomBytes(rnd, 5000)}
		files := []File{fileOf(t, d, 1, contents[0]), fileOf(t, d, 2, contents[1])}
		var readers sync.WaitGroup
		for k := range 8 {
			readers.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(k)))
				for range 10 {
					i := rnd.IntN(2)
					parts := drawParts(rnd, len(contents[i]), 20)
					if err := errors.Join(files[i].ReadAll(parts), checkParts(contents[i], parts)); err != nil {
						t.Errorf("%s: %v", d.Way(), err)
					}
				}
			})
		}
		readers.Wait()
	}
}

// TestWritesBesideReads writes by O_DIRECT and reads the same bytes, behind the end of the file so far.
func TestWritesBesideReads(t *testing.T) {
	rnd := seeded(t)
	for _, d := range folders(t) {
		f, err := d.Create(7)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Create(7); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: a second file of a number: %v", d.Way(), err)
		}
		var content []byte
		for range 10 {
			block := aligned(Align * (1 + rnd.IntN(300)))
			copy(block, randomBytes(rnd, len(block)))
			if err := f.WriteAt(block, int64(len(content))); err != nil {
				t.Fatal(err)
			}
			content = append(content, block...)
			parts := drawParts(rnd, len(content), 20)
			if err := errors.Join(f.ReadAll(parts), checkParts(content, parts)); err != nil {
				t.Fatalf("%s: %v", d.Way(), err)
			}
		}
		if size, err := f.Size(); err != nil || size != int64(len(content)) {
			t.Errorf("%s: size %d, %v; want %d", d.Way(), size, err, len(content))
		}
		_ = f.Close()
	}
}

// sizedDir is a disk in memory that records the most bytes of one ReadAll.
type sizedDir struct {
	*MemDir
	most, calls int
}

type sizedFile struct {
	File
	dir *sizedDir
}

func (d *sizedDir) Create(number uint64) (File, error) {
	f, err := d.MemDir.Create(number)
	return sizedFile{f, d}, err
}

func (f sizedFile) ReadAll(parts []Part) error {
	bytes := 0
	for _, p := range parts {
		bytes += len(p.Bytes)
	}
	f.dir.most, f.dir.calls = max(f.dir.most, bytes), f.dir.calls+1
	return f.File.ReadAll(parts)
}

// TestMemoryOfReads checks that a Read of many bytes reads them in several lists.
func TestMemoryOfReads(t *testing.T) {
	rnd := seeded(t)
	for _, rowBytes := range []int{100_000, maxPart, 3 << 20} {
		d := &sizedDir{MemDir: NewMemDir(rnd)}
		o := Options{Dir: d, Owners: 1, RowBytes: rowBytes, Slots: 90_000_000 / int64(rowBytes)}
		w, l := newTwin(), must(Open(o))
		var slots []int32
		for slot := range int32(o.Slots) {
			slots = append(slots, slot)
		}
		rows := bytes.Repeat(randomBytes(rnd, rowBytes+1), int(o.Slots))[:int(o.Slots)*rowBytes]
		if err := l.Append(1, slots, rows, nil); err != nil {
			t.Fatal(err)
		}
		w.add(1, slots, rows, nil, rowBytes)
		d.most, d.calls = 0, 0
		w.check(t, l)
		if d.most > readBytes+maxPart || d.calls < 3 {
			t.Errorf("rows of %d bytes: up to %d bytes at once, in %d calls", rowBytes, d.most, d.calls)
		}
	}
}
