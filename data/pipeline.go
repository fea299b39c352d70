package data

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// lockPoll is how often a process looks whether another one, which makes the
// same record file, has finished.
const lockPoll = 200 * time.Millisecond

// run makes the record file in NAME.part, behind what is there of it already.
func (j *conversion) run() (*Converted, error) {
	e := j.o.Env
	part := j.to + ".part"
	var f *os.File
	err := e.Do("open "+part, func() (err error) {
		f, err = os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
		return err
	})
	if err != nil {
		return nil, &Error{File: part, What: "cannot create the record file", Err: err}
	}
	defer f.Close()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return nil, fmt.Errorf("lock %s: %w", part, err)
		}
		if err := j.o.progress("wait for another conversion", 0, 0); err != nil {
			return nil, err
		}
		e.Sleep(lockPoll)
	}
	// Whoever held the lock may have finished the file and taken the name away.
	if st, err := os.Stat(part); err != nil || !sameFile(f, st) {
		f.Close()
		c, err := j.existing()
		if c != nil || err != nil {
			return c, err
		}
		return j.run()
	}
	w := &recordWriter{env: e, file: f, head: j.head}
	if err := e.Do("resume "+part, w.resume); err != nil {
		return nil, fmt.Errorf("go on with %s: %w", part, err)
	}
	c := &Converted{File: j.to, Made: true}
	if err := j.convert(w, c); err != nil {
		if errors.Is(err, ErrInput) {
			// Mended sources are others: there is nothing to go on with.
			_ = e.Do("remove "+part, func() error { return os.Remove(part) })
		}
		return nil, err
	}
	c.Samples, c.Skipped = int64(w.head.samples), int64(w.head.skipped)
	if c.Samples == 0 {
		_ = e.Do("remove "+part, func() error { return os.Remove(part) })
		return nil, fileErr(j.o.Files[0], "there is no well-formed sample in it (%d malformed lines)", c.Skipped)
	}
	if err := w.finish(); err != nil {
		return nil, fmt.Errorf("finish %s: %w", part, err)
	}
	if err := e.Do("rename "+part, func() error { return os.Rename(part, j.to) }); err != nil {
		return nil, fmt.Errorf("name the record file: %w", err)
	}
	return c, nil
}

func sameFile(f *os.File, st os.FileInfo) bool {
	mine, err := f.Stat()
	return err == nil && os.SameFile(mine, st)
}

// convert runs the pipeline: one goroutine cuts the text into chunks, several
// parse them, this one writes the records in the order of the sources. At most
// two chunks per parser are in memory.
func (j *conversion) convert(w *recordWriter, c *Converted) (err error) {
	e := j.o.Env
	threads := j.o.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	free := env.NewQueue[*chunk](e, "convert free", 2*threads)
	todo := make([]*env.Queue[*chunk], threads)
	done := make([]*env.Queue[*chunk], threads)
	ended := make([]*env.Event, threads+1)
	for i := range ended {
		ended[i] = env.NewEvent(e, "convert ended")
	}
	for i := range threads {
		todo[i] = env.NewQueue[*chunk](e, "convert todo", 2)
		done[i] = env.NewQueue[*chunk](e, "convert done", 2)
		free.Put(new(chunk))
		free.Put(new(chunk))
		e.Go("convert parser", func() {
			defer ended[i].Set(nil)
			j.parseAll(todo[i], done[i])
		})
	}
	e.Go("convert reader", func() {
		defer ended[threads].Set(nil)
		j.readAll(w.next.at, free, todo)
	})
	defer func() {
		free.Close()
		for i := range threads {
			todo[i].Close()
			done[i].Close()
		}
		for _, v := range ended {
			v.Wait()
		}
	}()
	for i := 0; ; i++ {
		ch, ok := done[i%threads].Get()
		if !ok {
			panic("data: a parser ended before its chunks")
		}
		if ch.err != nil || ch.end {
			return ch.err
		}
		if err := j.accept(w, c, ch); err != nil {
			return err
		}
		free.Put(ch)
	}
}

// readAll deals chunks to the parsers in turn; the last one says end or err.
func (j *conversion) readAll(from place, free *env.Queue[*chunk], todo []*env.Queue[*chunk]) {
	r := &lineReader{env: j.o.Env, files: j.o.Files, csv: j.csv, next: from}
	defer r.close()
	for i := 0; ; i++ {
		ch, ok := free.Get()
		if !ok {
			return
		}
		more, err := r.fill(ch)
		ch.end, ch.err = !more, err
		if !todo[i%len(todo)].Put(ch) || ch.end || ch.err != nil {
			return
		}
	}
}

func (j *conversion) parseAll(todo, done *env.Queue[*chunk]) {
	for {
		ch, ok := todo.Get()
		if !ok {
			return
		}
		ch.records, ch.bad = ch.records[:0], ch.bad[:0]
		if !ch.end && ch.err == nil {
			j.parser.parse(ch, j.o.Files[ch.at.file])
		}
		if !done.Put(ch) {
			return
		}
	}
}

// accept takes one chunk's records and judges its malformed lines.
func (j *conversion) accept(w *recordWriter, c *Converted, ch *chunk) error {
	if len(ch.bad) > 0 && !j.o.SkipBad {
		return ch.bad[0]
	}
	for _, e := range ch.bad[:min(len(ch.bad), maxReported-len(c.Bad))] {
		c.Bad = append(c.Bad, e)
	}
	if err := w.add(ch); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	var before, total int64
	for i, size := range j.sizes {
		if i < ch.at.file {
			before += size
		}
		total += size
	}
	return j.o.progress("convert", min(before+ch.at.offset+int64(len(ch.text)), total), total)
}

// recordWriter appends blocks to a record file that is being made.
type recordWriter struct {
	env   env.Env
	file  *os.File
	head  recordHeader // samples and skipped grow
	next  blockTrailer // where the sources go on
	block []byte
	drop  int64 // well-formed lines to come that are in the file already
}

// resume finds the last whole block of the same conversion, or starts anew.
func (w *recordWriter) resume() error {
	w.next.at.line = 1
	want := w.head.encode()
	got := make([]byte, recordHeaderBytes)
	if n, err := w.file.ReadAt(got, 0); err != nil && err != io.EOF {
		return err
	} else if string(got[:n]) != string(want) {
		if err := w.file.Truncate(0); err != nil {
			return err
		}
		_, err := w.file.WriteAt(want, 0)
		return err
	}
	st, err := w.file.Stat()
	if err != nil {
		return err
	}
	l := w.head.layout()
	size := l.blockBytes(l.blockRecords)
	block := make([]byte, size)
	blocks := (st.Size() - recordHeaderBytes) / size
	for ; blocks > 0; blocks-- {
		if _, err := w.file.ReadAt(block, recordHeaderBytes+(blocks-1)*size); err != nil {
			return err
		}
		if l.checkBlock("", blocks-1, block) == nil {
			w.next = decodeTrailer(block)
			break
		}
	}
	w.head.samples = uint64(blocks * l.blockRecords)
	w.head.skipped = uint64(w.next.skipped)
	w.drop = w.next.good
	return w.file.Truncate(recordHeaderBytes + blocks*size)
}

// add appends a chunk's records, and writes the blocks that become full.
func (w *recordWriter) add(ch *chunk) error {
	size := int(w.head.recordBytes)
	good := min(w.drop, int64(len(ch.records)/size))
	w.drop -= good
	records := ch.records[int(good)*size:]
	for len(records) > 0 {
		room := int(w.head.blockRecords)*size - len(w.block)
		n := min(room, len(records))
		w.block = append(w.block, records[:n]...)
		records = records[n:]
		good += int64(n / size)
		w.head.samples += uint64(n / size)
		if n == room {
			w.next = blockTrailer{at: ch.at, good: good, skipped: int64(w.head.skipped)}
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	w.head.skipped += uint64(len(ch.bad))
	return nil
}

func (w *recordWriter) flush() error {
	l := w.head.layout()
	n := int64(len(w.block)) / l.recordBytes
	off := l.offset(int64(w.head.samples) - n)
	w.block = w.next.append(w.block)
	err := w.env.Do("write "+w.file.Name(), func() error {
		_, err := w.file.WriteAt(w.block, off)
		return err
	})
	w.block = w.block[:0]
	return err
}

// finish writes the last block and the header, and makes them last.
func (w *recordWriter) finish() error {
	if len(w.block) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.env.Do("finish "+w.file.Name(), func() error {
		if err := w.file.Sync(); err != nil { // before the header calls it complete
			return err
		}
		if _, err := w.file.WriteAt(w.head.encode(), 0); err != nil {
			return err
		}
		return w.file.Sync()
	})
}
