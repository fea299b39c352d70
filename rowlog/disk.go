package rowlog

// Dir is the folder of a log. Its files are named by numbers.
type Dir interface {
	// List returns the numbers of the files, ascending.
	List() ([]uint64, error)
	// Create makes an empty file. It and the file's name are durable after Sync of the Dir.
	Create(number uint64) (File, error)
	Open(number uint64) (File, error)
	Remove(number uint64) error
	Sync() error
}

// File is a file of a log. Offsets, lengths and addresses of buffers of WriteAt are multiples of Align.
type File interface {
	WriteAt(p []byte, at int64) error
	// ReadAll reads all parts. Their offsets and lengths are arbitrary. An error is that of the first part that fails.
	ReadAll(parts []Part) error
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the content and the size durable.
	Sync() error
	Close() error
}

// Part is a part of a file that is read to Bytes.
type Part struct {
	At    int64
	Bytes []byte
}

// Align is the unit of segments in a file: a multiple of the block size of disks.
const Align = 4096

func roundUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }
