//go:build !linux

package arena

import "os"

type file struct{}

func (file) descriptor() uint64         { return 0 }
func (file) punchHole(_, _ int64) error { return ErrUnavailable }
func (file) populate(_, _ int64) error  { return ErrUnavailable }
func (file) closeFile()                 {}
func (file) handOver() *os.File         { return nil }
func (file) mapAll() ([]byte, error)    { return nil, ErrUnavailable }
func (file) adviseHugePages([]byte)     {}
func (file) mapPresent([]byte)          {}
func processID() uint64                 { return 0 }
func fileOf(*os.File) file              { return file{} }
func createFile() (file, error)         { return file{}, ErrUnavailable }
func adoptFile(int) (file, error)       { return file{}, ErrUnavailable }

// Open maps another process's arena.
func Open(Name) (*View, error) { return nil, ErrUnavailable }

// Close unmaps the arena.
func (*View) Close() {}
