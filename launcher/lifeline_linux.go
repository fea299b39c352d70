package launcher

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A lifeline reports to a supervisor at once that its worker was killed. Without it the supervisor waits for the system, which
// first frees all memory of the process: that takes longer than the rest of a recovery if it has some GB.
//
// It is a robust futex: a word of shared memory that a thread of the worker holds for as long as the process lives. When the thread ends,
// the system marks the word and wakes the supervisor, before it frees any memory (set_robust_list(2)).
type lifeline struct {
	file *os.File // for the worker
	page []byte
	over atomic.Bool
	done chan struct{} // closed when endWatch has used page
}

// lifelinePage is the memory of a lifeline. The list of the robust futexes of a thread has one element, node.
type lifelinePage struct {
	next, offset, pending uintptr // struct robust_list_head: offset leads from an element to its word
	node                  uintptr
	word                  uint32 // 0, or the thread that holds it, and the bits below
}

// The bits of a word, as the system defines them.
const (
	futexWaiters   = 0x80000000 // a process waits
	futexOwnerDied = 0x40000000 // the thread has ended
	futexOver      = 0x20000000 // set by endWatch; no thread has such a number
)

// openLifeline makes a lifeline, nil if the system has none.
func openLifeline() *lifeline {
	fd, err := unix.MemfdCreate("ecrec lifeline", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	n := &lifeline{file: os.NewFile(uintptr(fd), "lifeline"), done: make(chan struct{})}
	if unix.Ftruncate(fd, int64(os.Getpagesize())) != nil || n.mapPage() != nil {
		_ = n.file.Close()
		return nil
	}
	return n
}

func (n *lifeline) mapPage() (err error) {
	n.page, err = unix.Mmap(int(n.file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (n *lifeline) memory() *lifelinePage {
	return (*lifelinePage)(unsafe.Pointer(unsafe.SliceData(n.page)))
}

// holdLifeline makes this process, a worker, hold the lifeline of a descriptor. Without it the supervisor notices its end later.
func holdLifeline(fd int) {
	n := &lifeline{file: os.NewFile(uintptr(fd), "lifeline")}
	defer n.file.Close()
	if n.mapPage() != nil {
		return
	}
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the process
		p := n.memory()
		p.node = uintptr(unsafe.Pointer(&p.next))
		p.next, p.offset = uintptr(unsafe.Pointer(&p.node)), unsafe.Offsetof(p.word)-unsafe.Offsetof(p.node)
		if _, _, e := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(p)), unsafe.Offsetof(p.node), 0); e != 0 {
			return
		}
		atomic.StoreUint32(&p.word, uint32(unix.Gettid())|futexWaiters)
		wakeFutex(&p.word)
		select {}
	}()
}

// await calls killed once if SIGKILL ends the worker with this number. It returns after endWatch.
func (n *lifeline) await(pid int, killed func()) {
	word := &n.memory().word
	for !n.over.Load() && atomic.LoadUint32(word)&futexOwnerDied == 0 {
		if v := atomic.LoadUint32(word); v&(futexOwnerDied|futexOver) == 0 {
			waitFutex(word, v)
		}
	}
	for poll := lifelinePoll; !n.over.Load(); poll = min(2*poll, mostPoll) {
		if signal, gone := killedBy(pid); gone {
			if signal == syscall.SIGKILL { // others leave a text, which is read first
				killed()
			}
			break
		}
		time.Sleep(poll)
	}
	<-n.done
	_ = unix.Munmap(n.page)
}

// A supervisor looks after lifelinePoll, and then after longer times up to mostPoll, whether all threads of a killed worker have reached
// their end. A thread that waits for a disk may take long.
const (
	lifelinePoll = 200 * time.Microsecond
	mostPoll     = 20 * time.Millisecond
)

// endWatch makes await return. The worker has ended, or was not started.
func (n *lifeline) endWatch() {
	n.over.Store(true)
	word := &n.memory().word
	atomic.StoreUint32(word, futexOver)
	wakeFutex(word)
	close(n.done)
}

// killedBy returns the signal that has killed a process, 0 if none has or it is unknown. Gone reports whether no thread of it runs code or
// a system call any more, such as a write to a disk.
func killedBy(pid int) (signal syscall.Signal, gone bool) {
	const exiting = 0x4 // PF_EXITING
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, true
	}
	for _, t := range threads {
		if f := statFields(fmt.Sprintf("/proc/%d/task/%s/stat", pid, t.Name())); len(f) > statFlags {
			if flags, _ := strconv.ParseUint(string(f[statFlags]), 10, 64); flags&exiting == 0 {
				return 0, false
			}
		}
	}
	f := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	if len(f) <= statExit {
		return 0, true
	}
	status, _ := strconv.Atoi(string(f[statExit])) // as of wait(2): a kernel before 5.17 may show 0
	return syscall.WaitStatus(status).Signal(), true
}

// The indexes of fields of /proc/PID/stat (proc(5)) behind the name.
const (
	statFlags = 6
	statExit  = 49
)

// statFields returns the fields of such a file behind the name, none if the thread is gone.
func statFields(path string) [][]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// waitFutex waits while the word is v, at times spuriously.
func waitFutex(word *uint32, v uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(v), 0, 0, 0) // FUTEX_WAIT
}

func wakeFutex(word *uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1<<30, 0, 0, 0) // FUTEX_WAKE
}
