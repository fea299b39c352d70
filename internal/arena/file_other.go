//go:build !linux

package arena

type file struct{}

func (file) number() uint64             { return 0 }
func (file) punch(_, _ int64) error     { return ErrUnavailable }
func processID() uint64                 { return 0 }
func createFile() (file, []byte, error) { return file{}, nil, ErrUnavailable }

// Open maps another process's arena.
func Open(Name) (*View, error) { return nil, ErrUnavailable }

// Close unmaps the arena.
func (*View) Close() {}
