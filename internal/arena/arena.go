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

// ErrUnavailable is the error on systems without such memory.
var ErrUnavailable = errors.New("arena: this system cannot share memory between processes")

const (
	// granule divides all lengths and offsets. It is at least a page.
	granule = 4096
	// firstFree is the offset of the first allocation; the ID is before it.
	firstFree = 2 << 20
	// hugePage is the alignment of long allocations.
	hugePage = 2 << 20

	idBytes = 32
)

// Arena is an arena that this process owns.
type Arena struct {
	file file
	mem  []byte
	name Name
	view View
	kept bool // the memory may hold contents of another process, which used it before

	mu   sync.Mutex
	free []span          // in order; none is empty, no two are adjacent
	used map[int64]int64 // length by offset
	// unmapped lists the allocations of a kept arena since the last MapPresent.
	unmapped []span
}

type span struct{ from, to int64 }

// Name identifies an arena to the other processes of this host.
type Name struct {
	PID, FD, Bytes uint64
	// ID is also stored in the arena. It proves that the file is the named one.
	ID [idBytes]byte
}

// Own returns the process's arena. The error is ErrUnavailable if it has none.
var Own = sync.OnceValues(create)

func create() (*Arena, error) {
	f, err := createFile()
	if err != nil {
		return nil, err
	}
	mem, err := f.mapAll()
	if err != nil {
		f.closeFile()
		return nil, err
	}
	f.adviseHugePages(mem)
	a := newArena(f, mem)
	a.name = Name{PID: processID(), FD: f.descriptor(), Bytes: uint64(len(mem))}
	_, _ = rand.Read(a.name.ID[:]) // never fails
	copy(mem, a.name.ID[:])
	return a, nil
}

func newArena(f file, mem []byte) *Arena {
	return &Arena{file: f, mem: mem, view: View{mem}, free: []span{{firstFree, int64(len(mem))}}, used: map[int64]int64{}}
}

// Keep makes memory that outlives the process that uses it. The parent of such processes
// holds the file, and each of them inherits it: one after the other, never two at a time.
func Keep() (*os.File, error) {
	f, err := createFile()
	if err != nil {
		return nil, err
	}
	return f.handOver(), nil
}

// preparedAtOnce is the number of bytes that Prepare makes physical at once.
// preparedShare is the share of a core that it uses.
const (
	preparedAtOnce = 4 << 20
	preparedShare  = 1. / 8
)

// Prepare makes bytes of memory physical, which the first process to inherit a file of Keep
// will allocate. It works in small pieces while goOn returns true, and keeps the
// memory's contents. It may run at the same time as that process.
func Prepare(f *os.File, bytes int64, goOn func() bool) error {
	for from, to := int64(firstFree), firstFree+bytes; from < to && goOn(); from += preparedAtOnce {
		began := time.Now()
		if err := fileOf(f).populate(from, min(preparedAtOnce, to-from)); err != nil {
			return err
		}
		time.Sleep(time.Duration(float64(time.Since(began)) * (1/preparedShare - 1)))
	}
	return nil
}

// kept is the inherited arena.
var kept atomic.Pointer[Arena]

// Inherit makes this process use memory of Keep, from a file descriptor that it was
// started with.
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

// Kept returns the inherited arena, nil if there is none. Its allocations hold zeros, or the
// contents that the process before this one left. Pages are already physical if that process
// had touched them, provided it allocated the same lengths in the same order. This saves
// time: the system takes longer to provide a page than a process takes to fill it.
func Kept() *Arena { return kept.Load() }

// Name returns the name by which another process opens the arena.
func (a *Arena) Name() Name { return a.name }

// Alloc returns memory aligned to a page, or to a huge page if it is at least that long. It
// is zeroed, unless the arena is Kept.
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
			a.unmapped = append(a.unmapped, span{from, from + n})
		}
		return unsafe.Pointer(&a.mem[from]), nil
	}
	return nil, fmt.Errorf("arena: no %d contiguous bytes are free of %d", bytes, len(a.mem))
}

// Free frees memory of Alloc and returns its pages to the system. Processes that still
// map the arena read zeros there.
func (a *Arena) Free(p unsafe.Pointer) {
	from := int64(uintptr(p) - uintptr(unsafe.Pointer(&a.mem[0])))
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.used[from]
	if !ok {
		panic(fmt.Sprintf("arena: free of %p, which is not an allocation", p))
	}
	delete(a.used, from)
	if err := a.file.punchHole(from, n); err != nil {
		clear(a.mem[from : from+n])
	}
	a.addFree(span{from, from + n})
}

// Trim returns the pages outside all allocations to the system. In a Kept arena, the process
// before this one may have allocated more.
func (a *Arena) Trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.free {
		_ = a.file.punchHole(s.from, s.to-s.from) // a system that cannot do this keeps the pages
	}
}

// MapPresent maps, in the background, the pages of new allocations that are already physical. In a
// Kept arena that saves a fault for each of them. It delays other mappings of the process, so it is
// for a moment at which no one waits.
func (a *Arena) MapPresent() {
	a.mu.Lock()
	spans := a.unmapped
	a.unmapped = nil
	a.mu.Unlock()
	for _, s := range spans {
		go a.file.mapPresent(a.mem[s.from:s.to])
	}
}

// addFree inserts s into the free spans. The caller holds the mutex.
func (a *Arena) addFree(s span) {
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

// Offset returns the offset of p in the arena. ok is false unless all of p is in it.
func (a *Arena) Offset(p []byte) (offset int64, ok bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(&a.mem[0]))
	return int64(at), at < uintptr(len(a.mem)) && len(p) <= len(a.mem)-int(at)
}

// View returns a view of the arena, like those of other processes.
func (a *Arena) View() *View { return &a.view }

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// View is a read-only view of an arena of this or another process.
type View struct{ mem []byte }

// Bytes returns n bytes of the arena at an offset, nil if they are not in it.
func (v *View) Bytes(offset int64, n int) []byte {
	if v == nil || offset < 0 || n < 0 || offset > int64(len(v.mem)-n) {
		return nil
	}
	return v.mem[offset : offset+int64(n)]
}
