package arena

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ErrUnavailable says that this system has no such memory.
var ErrUnavailable = errors.New("arena: this system cannot share memory between processes")

const (
	// granule is what lengths and places are multiples of, a page at least.
	granule = 4096
	// firstFree is where allocations begin; the identity lies before.
	firstFree = 2 << 20
	// hugePage is what long allocations are aligned to.
	hugePage = 2 << 20

	idBytes = 32
)

// Arena is one of this process.
type Arena struct {
	file file
	mem  []byte
	name Name
	view View
	kept bool // what was allocated before, by another process, may be there

	mu   sync.Mutex
	free []span          // in order, none empty, no two adjacent
	used map[int64]int64 // length by offset
}

type span struct{ from, to int64 }

// Name tells another process of this host how to find an arena.
type Name struct {
	PID, FD, Bytes uint64
	// ID lies in the arena too: it shows that the file is the one that was meant.
	ID [idBytes]byte
}

// Own returns the process's arena, or why it has none.
var Own = sync.OnceValues(create)

func create() (*Arena, error) {
	f, err := createFile()
	if err != nil {
		return nil, err
	}
	mem, err := f.mapAll()
	if err != nil {
		f.close()
		return nil, err
	}
	f.wantHugePages(mem)
	a := newArena(f, mem)
	a.name = Name{PID: processID(), FD: f.number(), Bytes: uint64(len(mem))}
	_, _ = rand.Read(a.name.ID[:]) // never fails
	copy(mem, a.name.ID[:])
	return a, nil
}

func newArena(f file, mem []byte) *Arena {
	return &Arena{file: f, mem: mem, view: View{mem}, free: []span{{firstFree, int64(len(mem))}}, used: map[int64]int64{}}
}

// Keep makes memory that outlives the process that works in it, for whoever starts such
// processes to hold: each inherits the file, one after the other, never two at a time.
func Keep() (*os.File, error) {
	f, err := createFile()
	if err != nil {
		return nil, err
	}
	return f.handOver(), nil
}

// preparedAtOnce is how much Prepare makes physical at once, and preparedShare the share
// of a core that it takes.
const (
	preparedAtOnce = 4 << 20
	preparedShare  = 1. / 8
)

// Prepare makes the memory physical that the first who inherits a file of Keep's will
// allocate, so many bytes of it, bit by bit as long as goOn says so. What stands in it
// stays. It may run beside that.
func Prepare(f *os.File, bytes int64, goOn func() bool) error {
	for from, to := int64(firstFree), firstFree+bytes; from < to && goOn(); from += preparedAtOnce {
		began := time.Now()
		if err := fileOf(f).fill(from, min(preparedAtOnce, to-from)); err != nil {
			return err
		}
		time.Sleep(time.Duration(float64(time.Since(began)) * (1/preparedShare - 1)))
	}
	return nil
}

// kept is the arena that was inherited.
var kept atomic.Pointer[Arena]

// Inherit has this process work in the memory that Keep made, which it was started with
// at a file descriptor.
func Inherit(fd int) error {
	f, err := adoptFile(fd)
	if err != nil {
		return err
	}
	mem, err := f.mapAll()
	if err != nil {
		return err
	}
	a := newArena(f, mem)
	a.kept = true
	kept.Store(a)
	return nil
}

// Kept is the arena that was inherited, nil if none was. What it allocates holds anything:
// zeros, or what the process before this one left there. Its pages are physical already
// where that one, which allocated the same in the same order, had touched them: to be given
// pages takes a system longer than to fill them.
func Kept() *Arena { return kept.Load() }

// Name is what Open wants elsewhere.
func (a *Arena) Name() Name { return a.name }

// Alloc returns memory, aligned to a page, and to a huge one where it is as long: zeroed,
// unless the arena is Kept.
func (a *Arena) Alloc(bytes int) (unsafe.Pointer, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("arena: cannot allocate %d bytes", bytes)
	}
	n, align := roundUp(int64(bytes), granule), int64(granule)
	if n >= hugePage {
		align = hugePage
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range a.free {
		base := int64(uintptr(unsafe.Pointer(&a.mem[0]))) % align
		from := roundUp(base+s.from, align) - base
		if from+n > s.to {
			continue
		}
		rest := slices.DeleteFunc([]span{{s.from, from}, {from + n, s.to}}, func(s span) bool { return s.from == s.to })
		a.free = slices.Replace(a.free, i, i+1, rest...)
		a.used[from] = n
		if a.kept {
			go a.file.mapPresent(a.mem[from : from+n])
		}
		return unsafe.Pointer(&a.mem[from]), nil
	}
	return nil, fmt.Errorf("arena: no %d bytes in a row are left of %d", bytes, len(a.mem))
}

// Free gives back what Alloc returned; its pages go back to the system, for all
// who map them. Who reads it still reads zeros.
func (a *Arena) Free(p unsafe.Pointer) {
	from := int64(uintptr(p) - uintptr(unsafe.Pointer(&a.mem[0])))
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.used[from]
	if !ok {
		panic(fmt.Sprintf("arena: free of %p, which is no allocation", p))
	}
	delete(a.used, from)
	if err := a.file.punch(from, n); err != nil {
		clear(a.mem[from : from+n])
	}
	a.release(span{from, from + n})
}

// Trim gives back what lies in no allocation: where the arena is Kept, the process before
// this one may have had more.
func (a *Arena) Trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.free {
		_ = a.file.punch(s.from, s.to-s.from) // it stays where the system cannot
	}
}

// release puts s among the free spans. The caller holds the mutex.
func (a *Arena) release(s span) {
	i, _ := slices.BinarySearchFunc(a.free, s.from, func(f span, from int64) int { return int(f.from>>12) - int(from>>12) })
	lo, hi := i, i
	if i > 0 && a.free[i-1].to == s.from {
		lo, s.from = i-1, a.free[i-1].from
	}
	if i < len(a.free) && a.free[i].from == s.to {
		hi, s.to = i+1, a.free[i].to
	}
	a.free = slices.Replace(a.free, lo, hi, s)
}

// Offset says where p lies in the arena, if it does, as a whole.
func (a *Arena) Offset(p []byte) (offset int64, ok bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(&a.mem[0]))
	return int64(at), at < uintptr(len(a.mem)) && len(p) <= len(a.mem)-int(at)
}

// View is the arena as others see it.
func (a *Arena) View() *View { return &a.view }

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// View is an arena to be read, this process's or another's.
type View struct{ mem []byte }

// Bytes are n bytes of the arena; nil where it has no such bytes.
func (v *View) Bytes(offset int64, n int) []byte {
	if v == nil || offset < 0 || n < 0 || offset > int64(len(v.mem)-n) {
		return nil
	}
	return v.mem[offset : offset+int64(n)]
}
