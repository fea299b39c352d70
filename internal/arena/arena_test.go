package arena

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func own(t *testing.T) *Arena {
	t.Helper()
	a, err := Own()
	if err != nil {
		t.Skip(err)
	}
	return a
}

// TestAllocations makes random allocations and frees. Each piece must be zeroed, aligned,
// disjoint from the others, and have an offset. At the end all must be free as before.
func TestAllocations(t *testing.T) {
	a := own(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	before := len(a.free)
	type piece struct {
		p    unsafe.Pointer
		mem  []byte
		mark byte
	}
	var live []piece
	release := func(i int) {
		if len(bytes.Trim(live[i].mem, string([]byte{live[i].mark}))) != 0 {
			t.Fatal("an allocation was written by another one")
		}
		a.Free(live[i].p)
		live = append(live[:i], live[i+1:]...)
	}
	for i := range 500 {
		if len(live) > 0 && r.IntN(5) < 2 {
			release(r.IntN(len(live)))
			continue
		}
		n := 1 + r.IntN(1<<r.IntN(23))
		p, err := a.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		mem := unsafe.Slice((*byte)(p), n)
		align := uintptr(granule)
		if n >= hugePage {
			align = hugePage
		}
		if uintptr(p)%align != 0 || len(bytes.Trim(mem, "\x00")) != 0 {
			t.Fatalf("%d bytes at %p are not aligned, or not zeroed", n, p)
		}
		mark := byte(i%255 + 1)
		for i := range mem {
			mem[i] = mark
		}
		offset, ok := a.Offset(mem)
		if !ok || &a.View().Bytes(offset, n)[0] != &mem[0] {
			t.Fatal("an allocation is not where its offset says")
		}
		live = append(live, piece{p, mem, mark})
	}
	for len(live) > 0 {
		release(0)
	}
	if len(a.free) != before {
		t.Errorf("%d spans are free, %d were before", len(a.free), before)
	}
}

func TestMemoryOutsideTheArena(t *testing.T) {
	a := own(t)
	if _, ok := a.Offset(make([]byte, 10)); ok {
		t.Error("Go's memory has an offset")
	}
	end := a.mem[len(a.mem)-4:]
	if _, ok := a.Offset(unsafe.Slice(&end[0], 5)); ok {
		t.Error("memory that ends beyond the arena has an offset")
	}
	for _, at := range []struct {
		offset int64
		n      int
	}{{-1, 1}, {int64(len(a.mem)), 1}, {1 << 62, 8}, {-1 << 63, 8}, {0, len(a.mem) + 1}, {0, -1}} {
		if a.View().Bytes(at.offset, at.n) != nil {
			t.Errorf("there are %d bytes at %d", at.n, at.offset)
		}
	}
	if (*View)(nil).Bytes(0, 1) != nil {
		t.Error("no arena has bytes")
	}
	defer func() {
		if recover() == nil {
			t.Error("memory that is not an allocation was freed")
		}
	}()
	a.Free(unsafe.Pointer(&a.mem[firstFree+1]))
}

// TestOpen checks that a process that opens an arena reads writes and frees of its owner,
// and that files other than the named arena are refused.
func TestOpen(t *testing.T) {
	a := own(t)
	p, err := a.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	mem := unsafe.Slice((*byte)(p), 5000)
	copy(mem[4990:], "a message.")
	offset, _ := a.Offset(mem)
	name := a.Name()

	wrong := name
	wrong.ID[3] ^= 1
	if _, err := Open(wrong); err == nil || !strings.Contains(err.Error(), "another arena") {
		t.Errorf("an arena of another name was opened: %v", err)
	}
	none := name
	none.FD = uint64(os.Stdin.Fd())
	if _, err := Open(none); err == nil {
		t.Error("a file that is not an arena was opened")
	}
	v, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if got := string(v.Bytes(offset+4990, 10)); got != "a message." {
		t.Errorf("the arena holds %q", got)
	}
	a.Free(p)
	if got := v.Bytes(offset+4990, 10); !bytes.Equal(got, make([]byte, 10)) {
		t.Errorf("freed memory holds %q", got)
	}
}
