package stream

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Read implements Partition.
func (p *folderPartition) Read(from int64, bytes int, wait time.Duration) (list []Record, err error) {
	until := p.env.Now() + wait
	for {
		err = p.env.Do("read "+p.path, func() error {
			list, err = p.readFrom(from, bytes)
			return err
		})
		if err != nil || len(list) > 0 || p.env.Now() >= until {
			return list, err
		}
		p.env.Sleep(pollEvery)
	}
}

// readFrom reads the records that are there.
func (p *folderPartition) readFrom(from int64, bytes int) (list []Record, err error) {
	if !p.read.valid || p.read.next != from {
		isThere, err := p.seek(from)
		if err == nil && !isThere && from > 0 {
			err = Missing(p.number, from, 0, 0)
		}
		if err != nil || !isThere {
			return nil, err
		}
	}
	for torn := int64(-1); ; {
		place, err := p.scan(p.read, func(r Record) bool {
			if r.Offset >= from {
				list, bytes = append(list, r), bytes-len(r.Bytes)
			}
			return bytes > 0
		})
		p.read = place
		if errors.Is(err, os.ErrNotExist) { // it was trimmed since it was listed
			if isThere, failed := p.seek(from); failed != nil {
				return nil, failed
			} else if !isThere {
				return nil, &Gone{err}
			}
			continue
		}
		if err != nil || len(list) > 0 {
			return list, err
		}
		files, err := p.segments()
		if err != nil {
			return nil, err
		}
		i, found := slices.BinarySearch(files, place.file+1)
		if !found && i == len(files) {
			if len(files) > 0 && place.next < from {
				return nil, Missing(p.number, from, files[0], place.next)
			}
			return nil, nil // the end
		}
		switch place.next {
		case files[i]:
			p.read = readPlace{file: files[i], next: files[i]}
		case torn:
			return nil, fmt.Errorf("%s: offset %d: %w, and the next file begins with offset %d", p.path, place.next, errTorn, files[i])
		default:
			torn = place.next // if it is no longer now: more may have been written to it, or it was trimmed
		}
	}
}

// seek finds the file with the record at an offset. It reports whether there are files.
func (p *folderPartition) seek(from int64) (bool, error) {
	p.read = readPlace{}
	files, err := p.segments()
	if err != nil || len(files) == 0 {
		return false, err
	}
	if from < files[0] {
		_, place, err := p.last()
		return false, errors.Join(err, &Trimmed{p.number, from, files[0], place.next})
	}
	i, found := slices.BinarySearch(files, from)
	if !found {
		i--
	}
	p.read = readPlace{file: files[i], next: files[i]}
	return true, nil
}
