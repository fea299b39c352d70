package stream

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/filelock"
)

// folder is a topic in a folder. Each partition is a folder of files, which are named by the offset of their first record. Offsets
// count records. A record is its length, its time, a sum of these and of its bytes, and the bytes.
type folder struct {
	env  env.Env
	path string
}

// OpenFolder is the topic in a folder, which need not exist yet.
func OpenFolder(e env.Env, path string) Topic { return &folder{e, path} }

const (
	topicFile     = "topic.json"
	baseFolder    = "base"
	segmentSuffix = ".frames"
	segmentBytes  = 64 << 20 // from which a new file begins
	recordHead    = 24
	maxRecord     = 64 << 20
	pollEvery     = 5 * time.Millisecond
)

// topicInfo is the content of topicFile.
type topicInfo struct {
	Partitions int `json:"partitions"`
}

func (t *folder) Name() string { return t.path }
func (t *folder) Close()       {}
func (t *folder) Keeps() error { return nil }
func (t *folder) Base() Topic  { return OpenFolder(t.env, filepath.Join(t.path, baseFolder)) }

func (t *folder) Partitions() (int, error) {
	var x topicInfo
	err := t.env.Do("read "+t.path, func() error {
		b, err := os.ReadFile(filepath.Join(t.path, topicFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && (json.Unmarshal(b, &x) != nil || x.Partitions < 1) {
			err = fmt.Errorf("%s is not that of a topic", topicFile)
		}
		return err
	})
	return x.Partitions, err
}

func (t *folder) Create(partitions int) error {
	return t.env.Do("make "+t.path, func() error {
		if err := os.MkdirAll(t.path, 0o777); err != nil {
			return err
		}
		b, err := json.Marshal(topicInfo{partitions})
		if err != nil {
			return err
		}
		for i := range partitions {
			if err := os.MkdirAll(t.partitionPath(i), 0o777); err != nil {
				return err
			}
		}
		return atomicfile.WriteFile(filepath.Join(t.path, topicFile), append(b, '\n'))
	})
}

func (t *folder) partitionPath(i int) string {
	return filepath.Join(t.path, fmt.Sprintf("partition-%05d", i))
}

func (t *folder) Open(partition int) (Partition, error) {
	return &folderPartition{env: t.env, path: t.partitionPath(partition), number: partition}, nil
}

// folderPartition is a partition in a folder.
type folderPartition struct {
	env    env.Env
	path   string
	number int

	lock *os.File // of the writer
	file *os.File // that is written; nil until the first Append
	size int64    // of file, without a record that was not written completely
	next int64    // the offset of the next record
	err  error    // after which nothing is taken

	read readPlace
}

// readPlace is the place behind the record that was read last.
type readPlace struct {
	file  int64 // the offset that names it
	at    int64 // in the file
	next  int64 // the offset of the record there
	valid bool
}

// segments lists the files by the offset of their first record, ascending.
func (p *folderPartition) segments() (list []int64, err error) {
	entries, err := os.ReadDir(p.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), segmentSuffix); ok {
			if n, err := strconv.ParseInt(name, 10, 64); err == nil {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	return list, err
}

func (p *folderPartition) segmentPath(first int64) string {
	return filepath.Join(p.path, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// scan passes the records of a file to f, until it returns false. It returns the place behind the last complete record.
func (p *folderPartition) scan(place readPlace, f func(Record) bool) (readPlace, error) {
	file, err := os.Open(p.segmentPath(place.file))
	if err != nil {
		return place, err
	}
	defer file.Close()
	if _, err := file.Seek(place.at, io.SeekStart); err != nil {
		return place, err
	}
	r := bufio.NewReaderSize(file, 256<<10)
	for again := false; ; {
		x, n, err := readRecord(r)
		if errors.Is(err, errTorn) {
			if info, fault := file.Stat(); fault != nil || info.Size() <= place.at+recordHead+n {
				return place, nil // it is being written, or its writer died
			}
			if again {
				return place, fmt.Errorf("%s: the record at offset %d is damaged", file.Name(), place.next)
			}
			again = true // it may have been completed since it was read, and another one begun
			if _, err := file.Seek(place.at, io.SeekStart); err != nil {
				return place, err
			}
			r.Reset(file)
			continue
		}
		if errors.Is(err, io.EOF) {
			return place, nil
		}
		if err != nil {
			return place, err
		}
		x.Offset, again = place.next, false
		place.at, place.next, place.valid = place.at+recordHead+n, place.next+1, true
		if !f(x) {
			return place, nil
		}
	}
}

// last is the place behind the last record.
func (p *folderPartition) last() (first int64, place readPlace, err error) {
	list, err := p.segments()
	if err != nil || len(list) == 0 {
		return 0, place, err
	}
	newest := list[len(list)-1]
	place, err = p.scan(readPlace{file: newest, next: newest}, func(Record) bool { return true })
	return list[0], place, err
}

func (p *folderPartition) Bounds() (first, next int64, err error) {
	err = p.env.Do("read "+p.path, func() error {
		var place readPlace
		first, place, err = p.last()
		next = place.next
		return err
	})
	return first, next, err
}

// openFile opens the last file for writing, behind its last complete record.
func (p *folderPartition) openFile() error {
	if err := os.MkdirAll(p.path, 0o777); err != nil {
		return err
	}
	if err := p.takeLock(); err != nil {
		return err
	}
	err := p.openLast()
	if err != nil { // another attempt takes the lock again
		p.lock.Close()
		p.lock = nil
	}
	return err
}

func (p *folderPartition) openLast() error {
	_, place, err := p.last()
	if err != nil {
		return err
	}
	p.next = place.next
	f, err := os.OpenFile(p.segmentPath(place.file), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(place.at), atomicfile.SyncDir(p.path)); err != nil {
		f.Close()
		return err
	}
	p.file, p.size = f, place.at
	return nil
}

func (p *folderPartition) takeLock() error {
	f, err := os.OpenFile(filepath.Join(p.path, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := filelock.Try(f, filelock.Exclusive); errors.Is(err, filelock.ErrHeld) {
		f.Close()
		return errors.New("another job writes to it; use another topic")
	}
	p.lock = f
	return nil
}

func (p *folderPartition) Append(records [][]byte) error {
	return p.env.Do("write "+p.path, func() error {
		if p.err != nil {
			return p.err
		}
		if p.file == nil {
			if err := p.openFile(); err != nil {
				return err
			}
		}
		for _, b := range records {
			if err := p.appendRecord(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *folderPartition) appendRecord(b []byte) error {
	if p.size >= segmentBytes {
		if err := p.beginFile(); err != nil {
			return err
		}
	}
	var head [recordHead]byte
	binary.LittleEndian.PutUint64(head[:], uint64(len(b)))
	binary.LittleEndian.PutUint64(head[8:], uint64(p.env.Deadline(0).UnixMilli()))
	binary.LittleEndian.PutUint64(head[16:], xxh3.HashSeed(b, xxh3.Hash(head[:16])))
	_, err := p.file.WriteAt(head[:], p.size)
	if err == nil {
		_, err = p.file.WriteAt(b, p.size+recordHead)
	}
	if err != nil { // a reader waits for the rest of an incomplete record, so the next one may be in its place
		if failed := p.file.Truncate(p.size); failed != nil {
			return p.fail(errors.Join(err, failed))
		}
		return err
	}
	p.size += recordHead + int64(len(b))
	p.next++
	return nil
}

// beginFile begins the next file.
func (p *folderPartition) beginFile() error {
	if err := p.file.Sync(); err != nil {
		return p.fail(err)
	}
	f, err := os.OpenFile(p.segmentPath(p.next), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	if err := atomicfile.SyncDir(p.path); err != nil {
		f.Close()
		return p.fail(err)
	}
	old := p.file
	p.file, p.size = f, 0
	return old.Close()
}

// fail ends the use of the partition: after a failed sync the kernel may have dropped what was written.
func (p *folderPartition) fail(err error) error {
	p.err = &Final{err}
	return p.err
}

func (p *folderPartition) Sync() error {
	return p.env.Do("sync "+p.path, func() error {
		if p.err != nil || p.file == nil {
			return p.err
		}
		if err := p.file.Sync(); err != nil {
			return p.fail(err)
		}
		return nil
	})
}

func (p *folderPartition) Trim(before int64) error {
	return p.env.Do("trim "+p.path, func() error {
		files, err := p.segments()
		for i := 0; err == nil && i+1 < len(files) && files[i+1] <= before; i++ {
			err = os.Remove(p.segmentPath(files[i]))
		}
		return err
	})
}

func (p *folderPartition) Close() {
	for _, f := range []*os.File{p.file, p.lock} {
		if f != nil {
			_ = f.Close() // Sync reports errors of writes
		}
	}
	p.file, p.lock = nil, nil
}
