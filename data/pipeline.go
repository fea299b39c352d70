package data

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/filelock"
)

// lockPoll is how often a process looks whether another one, which makes the
// same record file, has finished.
const lockPoll = 200 * time.Millisecond

// makeFile makes the record file in NAME.part. It keeps the blocks that the file has already.
func (j *conversion) makeFile() (*Converted, error) {
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
	defer j.dropTexts()
	for waited := false; ; waited = true {
		err := filelock.Try(f, filelock.Exclusive)
		if err == nil && waited {
			err = j.o.reportProgress("", 0, 0)
			if err != nil {
				return nil, err
			}
		}
		if err == nil {
			break
		}
		if err != filelock.ErrHeld {
			return nil, fmt.Errorf("lock %s: %w", part, err)
		}
		if err := j.o.reportProgress("waiting for another process to convert the data", 0, 0); err != nil {
			return nil, err
		}
		e.Sleep(lockPoll)
	}
	// The process that held the lock may have finished the file and renamed it.
	if st, err := os.Stat(part); err != nil || !sameFile(f, st) {
		f.Close()
		c, err := j.findExisting()
		if c != nil || err != nil {
			return c, err
		}
		return j.makeFile()
	}
	w := &recordWriter{env: e, file: f, head: j.head}
	if err := e.Do("resume "+part, j.beginning(w)); err != nil {
		return nil, fmt.Errorf("resume %s: %w", part, err)
	}
	c := &Converted{File: j.to, Made: true}
	if err := j.convertChunks(w, c); err != nil {
		if errors.Is(err, ErrInput) {
			// The sources must change, so that nothing of the file can be reused.
			_ = e.Do("remove "+part, func() error { return os.Remove(part) })
		}
		return nil, err
	}
	c.Samples, c.Skipped = int64(w.head.samples), int64(w.head.skipped)
	if c.Samples == 0 {
		_ = e.Do("remove "+part, func() error { return os.Remove(part) })
		return nil, fileErr(j.o.Files[0], "there is no well-formed sample in it (%d malformed lines)", c.Skipped)
	}
	if err := w.finishFile(); err != nil {
		return nil, fmt.Errorf("finish %s: %w", part, err)
	}
	return c, j.nameFile(part)
}

// beginning returns the first work on the record file. A conversion whose texts are kept starts over: those of
// the blocks in the file are lost. So does one that accepts no malformed lines, where another run skipped some.
func (j *conversion) beginning(w *recordWriter) func() error {
	if j.countKept() > 0 {
		return w.beginFile
	}
	return func() error {
		err := w.resumeFile()
		if err == nil && w.head.skipped > 0 && !j.o.SkipBad {
			err = w.beginFile()
		}
		return err
	}
}

// nameFile writes the texts of a complete record file, and gives that its name.
func (j *conversion) nameFile(part string) error {
	if err := j.writeTexts(); err != nil {
		return err
	}
	if err := j.o.Env.Do("rename "+part, func() error { return os.Rename(part, j.to) }); err != nil {
		return fmt.Errorf("name the record file: %w", err)
	}
	return nil
}

func sameFile(f *os.File, st os.FileInfo) bool {
	mine, err := f.Stat()
	return err == nil && os.SameFile(mine, st)
}

// convertChunks runs the pipeline: one goroutine cuts the text into chunks, several
// parse them, this one writes the records in the order of the sources. At most
// two chunks per parser are in memory.
func (j *conversion) convertChunks(w *recordWriter, c *Converted) (err error) {
	e := j.o.Env
	threads := j.o.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	free := env.NewQueue[*chunk](e, "convert free", 2*threads)
	todo := make([]*env.Queue[*chunk], threads)
	done := make([]*env.Queue[*chunk], threads)
	sets := j.newTextSets(threads)
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
			j.parseAll(todo[i], done[i], sets[i])
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
		if err := j.acceptChunk(w, c, ch); err != nil {
			return err
		}
		free.Put(ch)
	}
}

// readAll deals chunks to the parsers in turn. The last chunk has end or err set.
func (j *conversion) readAll(from place, free *env.Queue[*chunk], todo []*env.Queue[*chunk]) {
	var r chunkReader
	if f, ok := j.text.(chunked); ok {
		r = f.newReader(j.o, from, len(todo), j.ofReader())
	} else {
		r = &lineReader{env: j.o.Env, name: j.o.Format, files: j.o.Files, format: j.text.(lineFormat), next: from}
	}
	defer r.closeFile()
	for i := 0; ; i++ {
		ch, ok := free.Get()
		if !ok {
			return
		}
		more, err := r.fillChunk(ch)
		ch.end, ch.err = !more, err
		if !todo[i%len(todo)].Put(ch) || !more || err != nil { // ch is the parser's now
			return
		}
	}
}

// countKept is the number of columns whose texts are kept.
func (j *conversion) countKept() int {
	if f, ok := j.text.(interface{ countTexts() int }); ok {
		return f.countTexts()
	}
	return 0
}

func (j *conversion) parseAll(todo, done *env.Queue[*chunk], texts *textSet) {
	for {
		ch, ok := todo.Get()
		if !ok {
			return
		}
		ch.records, ch.heap, ch.bad = ch.records[:0], ch.heap[:0], ch.bad[:0]
		if !ch.end && ch.err == nil {
			ch.texts = texts
			j.text.parseChunk(ch, j.o.Files[ch.at.file])
		}
		if !done.Put(ch) {
			return
		}
	}
}

// acceptChunk writes the records of one chunk. A malformed line is an error, unless
// malformed lines are skipped.
func (j *conversion) acceptChunk(w *recordWriter, c *Converted, ch *chunk) error {
	if len(ch.bad) > 0 && !j.o.SkipBad {
		return ch.bad[0]
	}
	for _, e := range ch.bad[:min(len(ch.bad), maxReported-len(c.Bad))] {
		c.Bad = append(c.Bad, e)
	}
	if err := w.addChunk(ch); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	var before, total int64
	for i, size := range j.sizes {
		if i < ch.at.file {
			before += size
		}
		total += size
	}
	return j.o.reportProgress("convert", min(before+ch.fileBytes, total), total)
}

// recordWriter appends blocks to a record file that is being made.
type recordWriter struct {
	env   env.Env
	file  *os.File
	head  recordHeader // samples and skipped grow
	next  blockTrailer // the next position in the sources
	block []byte
	drop  int64 // well-formed lines after next.at that are in the file already

	bags bagWriter
}

// resumeFile finds the complete blocks at the beginning of the same conversion, or starts over.
func (w *recordWriter) resumeFile() error {
	w.next.at.line = 1
	w.bags.beginFile(&w.head.bags)
	want := w.head.encodeHeader()
	got := make([]byte, recordHeaderBytes)
	if n, err := w.file.ReadAt(got, 0); err != nil && err != io.EOF {
		return err
	} else if string(got[:n]) != string(want) {
		return w.beginFile()
	}
	if w.head.bags.mask != nil {
		return w.resumeBags()
	}
	st, err := w.file.Stat()
	if err != nil {
		return err
	}
	l := w.head.blockLayout()
	size := l.blockBytes(l.blockRecords)
	block := make([]byte, size)
	blocks := int64(0)
	for ; blocks < (st.Size()-recordHeaderBytes)/size; blocks++ { // after a power cut a block may be missing before one that is there
		if _, err := w.file.ReadAt(block, recordHeaderBytes+blocks*size); err != nil {
			return err
		}
		if l.checkBlock("", blocks, block) != nil {
			break
		}
		w.next = decodeTrailer(block)
	}
	w.head.samples = uint64(blocks * l.blockRecords)
	w.head.skipped = uint64(w.next.skipped)
	w.drop = w.next.good
	return w.file.Truncate(recordHeaderBytes + blocks*size)
}

// beginFile starts over.
func (w *recordWriter) beginFile() error {
	w.next, w.drop = blockTrailer{at: place{line: 1}}, 0
	w.head.samples, w.head.skipped = 0, 0
	w.bags.beginFile(&w.head.bags)
	if err := w.file.Truncate(0); err != nil {
		return err
	}
	_, err := w.file.WriteAt(w.head.encodeHeader(), 0)
	return err
}

// addChunk appends a chunk's records, and writes the blocks that become full.
func (w *recordWriter) addChunk(ch *chunk) error {
	size := int(w.head.recordBytes)
	good := min(w.drop, int64(len(ch.records)/size))
	w.drop -= good
	records := ch.records[int(good)*size:]
	w.bags.beginChunk(ch.heap, records, size)
	for len(records) > 0 {
		room := int(w.head.blockRecords)*size - len(w.block)
		n := min(room, len(records))
		w.block = append(w.block, records[:n]...)
		w.bags.addRecords(w.block[len(w.block)-n:], records[n:], size)
		records = records[n:]
		good += int64(n / size)
		w.head.samples += uint64(n / size)
		if n == room {
			w.next = blockTrailer{at: ch.at, good: good, skipped: int64(w.head.skipped)}
			if err := w.flushBlock(); err != nil {
				return err
			}
		}
	}
	w.head.skipped += uint64(len(ch.bad))
	return nil
}

func (w *recordWriter) flushBlock() error {
	if w.head.bags.mask != nil {
		return w.flushBags()
	}
	l := w.head.blockLayout()
	n := int64(len(w.block)) / l.recordBytes
	off := l.recordOffset(int64(w.head.samples) - n)
	w.block = w.next.appendTo(w.block)
	err := w.env.Do("write "+w.file.Name(), func() error {
		_, err := w.file.WriteAt(w.block, off)
		return err
	})
	w.block = w.block[:0]
	return err
}

// finishFile writes the last block and the header, and syncs the file.
func (w *recordWriter) finishFile() error {
	if len(w.block) > 0 {
		if err := w.flushBlock(); err != nil {
			return err
		}
	}
	if w.head.bags.mask != nil {
		if err := w.writeIndex(); err != nil {
			return err
		}
	}
	return w.env.Do("finish "+w.file.Name(), func() error {
		if err := w.file.Sync(); err != nil { // before the header calls it complete
			return err
		}
		if _, err := w.file.WriteAt(w.head.encodeHeader(), 0); err != nil {
			return err
		}
		return w.file.Sync()
	})
}
