package arena

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// TestKept checks that the next owner of a kept arena finds the contents that the last one
// left, on pages that are mapped at once, and that no other pages are.
func TestKept(t *testing.T) {
	f, err := Keep()
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if err := Inherit(int(os.Stdin.Fd())); err == nil {
		t.Error("a file that is not an arena was inherited")
	}
	if Kept() != nil {
		t.Fatal("there is an arena that was not inherited")
	}
	defer kept.Store(nil)
	const bytes, page = 64 << 20, 4096
	touched := func(i int) bool { return i%16 == 3 || i/1000%2 == 0 }
	var blocks int64
	for turn := range 2 {
		if err := Inherit(int(f.Fd())); err != nil {
			t.Fatal(err)
		}
		a := Kept()
		p, err := a.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		mem := unsafe.Slice((*byte)(p), bytes)
		if turn == 1 {
			a.file.mapPresent(mem) // as MapPresent does, concurrently
			if now := usedBlocks(t, f); now != blocks {
				t.Errorf("%d blocks were used, now %d", blocks, now)
			}
			missed, mapped := 0, pagesMapped(t, mem)
			for i := range bytes / page {
				if touched(i) && !mapped[i] {
					missed++
				}
			}
			if missed > bytes/page/20 { // the system may have its reasons
				t.Errorf("%d pages of %d are not mapped", missed, bytes/page)
			}
		}
		for i := range bytes / page {
			if at := i * page; touched(i) {
				if turn == 1 && mem[at] != byte(i)|1 {
					t.Fatalf("page %d holds %d", i, mem[at])
				}
				mem[at] = byte(i) | 1
			}
		}
		blocks = usedBlocks(t, f)
		if turn == 0 { // and more, which the next one does not allocate
			more, err := a.Alloc(bytes)
			if err != nil {
				t.Fatal(err)
			}
			clear(unsafe.Slice((*byte)(more), bytes))
			blocks = usedBlocks(t, f)
		}
		if turn == 1 {
			a.Trim()
			if now := usedBlocks(t, f); now != blocks-bytes/512 {
				t.Errorf("%d blocks are used, of %d before, %d of them in no allocation", now, blocks, bytes/512)
			}
			a.Free(p)
			if now := usedBlocks(t, f); now != 0 {
				t.Errorf("%d blocks are used when all is free", now)
			}
		}
	}
}

func usedBlocks(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}

// pagesMapped returns which pages of memory this process has mapped.
func pagesMapped(t *testing.T, mem []byte) []bool {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	words := make([]byte, len(mem)/4096*8)
	if _, err := f.ReadAt(words, int64(uintptr(unsafe.Pointer(&mem[0]))/4096*8)); err != nil {
		t.Skip(fmt.Sprint("the system does not tell: ", err))
	}
	mapped := make([]bool, len(mem)/4096)
	for i := range mapped {
		mapped[i] = binary.NativeEndian.Uint64(words[8*i:])>>63 != 0
	}
	return mapped
}

// TestPrepare checks that prepared memory is physical, keeps its contents, and is allocated
// by the first process to inherit the file; and that preparing ends when goOn returns false.
func TestPrepare(t *testing.T) {
	f, err := Keep()
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	defer kept.Store(nil)
	if err := Inherit(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	const bytes = 3*preparedAtOnce + 4096
	p, err := Kept().Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	mem := unsafe.Slice((*byte)(p), bytes)
	mem[5] = 7
	left := 2
	if err := Prepare(f, bytes, func() bool { left--; return left >= 0 }); err != nil {
		t.Fatal(err)
	}
	if got := usedBlocks(t, f); got != 2*preparedAtOnce/512 {
		t.Errorf("%d blocks are used after two turns", got)
	}
	if err := Prepare(f, bytes, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	blocks := usedBlocks(t, f)
	if blocks != bytes/512 {
		t.Errorf("%d blocks are used of %d bytes", blocks, bytes)
	}
	if mem[5] != 7 {
		t.Error("preparing changed what was there")
	}
	present := make([]byte, bytes/granule)
	if err := mincore(mem, present); err != nil {
		t.Fatal(err)
	}
	offset, _ := Kept().Offset(mem) // alignment may move its beginning, and its end beyond the prepared memory
	for i, p := range present[:(bytes-(offset-firstFree))/granule] {
		if p&1 == 0 {
			t.Fatalf("page %d of %d is reserved, but not cleared: a process that inherits it would clear it page by page", i, len(present))
		}
	}
	for i := 0; i < bytes; i += 4096 {
		mem[i] = 1
	}
	if now := usedBlocks(t, f); now > blocks+hugePage/512 { // alignment may begin later
		t.Errorf("%d blocks are used when all has been written, %d before", now, blocks)
	}
}
