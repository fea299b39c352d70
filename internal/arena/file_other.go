//go:build !linux

package arena

import "os"

type file struct{}

func (file) number() uint64          { return 0 }
func (file) punch(_, _ int64) error  { return ErrUnavailable }
func (file) fill(_, _ int64) error   { return ErrUnavailable }
func (file) close()                  {}
func (file) handOver() *os.File      { return nil }
func (file) mapAll() ([]byte, error) { return nil, ErrUnavailable }
func (file) wantHugePages([]byte)    {}
func (file) mapPresent([]byte)       {}
func processID() uint64              { return 0 }
func fileOf(*os.File) file           { return file{} }
func createFile() (file, error)      { return file{}, ErrUnavailable }
func adoptFile(int) (file, error)    { return file{}, ErrUnavailable }

// Open maps another process's arena.
func Open(Name) (*View, error) { return nil, ErrUnavailable }

// Close unmaps the arena.
func (*View) Close() {}
