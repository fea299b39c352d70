package data

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/regular"
)

// fileKind is a kind of files that is known by its first bytes.
type fileKind struct {
	at     int
	magic  string
	is     string
	remedy string
	// unpack opens a compressed text. nil: formats of text cannot read such a file.
	unpack func(in *countedFile) (textUnpacker, error)
}

// Remedies of several kinds.
const (
	writeAgain = "write its rows as CSV or Parquet"
	useUTF8    = "convert it with iconv -f UTF-16 -t UTF-8 first"
	notSamples = "name a file of samples"
	useNumPy   = `for the arrays of MLPerf's Criteo set data.format = "criteo-numpy"; else ` + writeAgain
)

// The kind of Parquet files, and their first bytes.
const (
	parquetKind  = "Parquet"
	parquetMagic = "PAR1"
)

// fileKinds lists kinds of files. A magic that begins with another one is listed first.
var fileKinds = []fileKind{
	{0, "\x1f\x8b", "gzip", "decompress it with gunzip first", unpackGzip},
	{0, "\x28\xb5\x2f\xfd", "zstd", "decompress it with unzstd first", unpackZstd},
	{0, "\x50\x2a\x4d\x18", "zstd", "decompress it with unzstd first", unpackZstd}, // a skippable frame
	{0, "\xfd7zXZ\x00", "xz", "decompress it with unxz first", nil},
	{0, "BZh", "bzip2", "decompress it with bunzip2 first", nil},
	{0, "\x04\x22\x4d\x18", "lz4", "decompress it with unlz4 first", nil},
	{30, "[Content_Types].xml", "a spreadsheet or another office document", "export it as CSV", nil},
	{30, "0.npy", "npz (NumPy)", useNumPy, nil},
	{0, "PK\x03\x04", "zip", "unpack it with unzip first; of a .npz file, " + writeAgain, nil},
	{0, "7z\xbc\xaf\x27\x1c", "7z", "unpack it with 7z first", nil},
	{257, "ustar", "a tar archive", "unpack it with tar -x first", nil},
	{0, parquetMagic, parquetKind, `set data.format = "parquet"`, nil},
	{0, "PARE", "encrypted Parquet", "decrypt it first", nil},
	{0, "ARROW1", "Arrow (Feather)", writeAgain, nil},
	{0, "FEA1", "Feather", writeAgain, nil},
	{0, "ORC", "ORC", writeAgain, nil},
	{0, "Obj\x01", "Avro", writeAgain, nil},
	{0, "\x89HDF\r\n\x1a\n", "HDF5", writeAgain, nil},
	{0, npyMagic, "npy (NumPy)", useNumPy, nil},
	{0, "SQLite format 3\x00", "an SQLite database", writeAgain, nil},
	{0, "\x80\x04\x95", "a pickle", writeAgain, nil},
	{0, "\x80\x05\x95", "a pickle", writeAgain, nil},
	{8, `{"`, "safetensors", "it holds tensors, as in model.init_from; " + notSamples, nil},
	{0, "{\"", "JSON", writeAgain, nil},
	{0, "[{", "JSON", writeAgain, nil},
	{0, "%PDF-", "PDF", notSamples, nil},
	{0, "\x89PNG", "PNG", notSamples, nil},
	{0, "\x7fELF", "a program", notSamples, nil},
	{0, "<!DOCTYPE", "HTML", "a download may have failed; open it in a browser to see the reason", nil},
	{0, "<html", "HTML", "a download may have failed; open it in a browser to see the reason", nil},
	{0, "version https://git-lfs", "a pointer of Git LFS", "get the file with git lfs pull", nil},
	{0, "\xff\xfe", "UTF-16", useUTF8, nil},
	{0, "\xfe\xff", "UTF-16", useUTF8, nil},
	{0, recordMagic, "a record file", `set data.format = "record"`, nil},
}

// sniff returns the kind of a file that begins with head, or nil.
func sniff(head []byte) *fileKind {
	for i := range fileKinds {
		k := &fileKinds[i]
		if k.at >= len(head) || !bytes.HasPrefix(head[k.at:], []byte(k.magic)) {
			continue
		}
		if k.is == "safetensors" && binary.LittleEndian.Uint64(head) > 1<<32 {
			continue // text of eight bytes and a brace
		}
		if mayBeName(k.magic) && isText(head) {
			continue // a table whose first column is called ORCID or PARENT
		}
		return k
	}
	return nil
}

// mayBeName reports whether a magic is a few letters and digits, as the name of a column is. The files of these kinds are no text.
func mayBeName(magic string) bool {
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }
	return len(magic) < len(recordMagic) && !strings.ContainsFunc(magic, other)
}

// headBytes is how much of a file is read to find its kind.
const headBytes = 4096

// readHead reads the beginning of a file.
func readHead(e env.Env, f *os.File) ([]byte, error) {
	head := make([]byte, headBytes)
	n := 0
	err := e.Do("read "+f.Name(), func() (err error) {
		if n, err = f.ReadAt(head, 0); err == io.EOF {
			err = nil
		}
		return err
	})
	if err != nil {
		return nil, openErr(f.Name(), err)
	}
	return head[:n], nil
}

// checkText refuses a file of another kind than text, by its first bytes.
func checkText(format, name string, head []byte) error {
	if kind := sniff(head); kind != nil && kind.unpack == nil {
		return fileErr(name, "it is %s, and %s is text; %s", kind.is, format, kind.remedy)
	}
	return nil
}

// checkUnpacked refuses text of another kind within a compressed file. The
// beginning of plain text was checked when the conversion was prepared.
func checkUnpacked(name, format string, head []byte) error {
	if kind := sniff(head); kind != nil {
		return fileErr(name, "it holds %s, and %s is text; unpack it, and %s", kind.is, format, kind.remedy)
	}
	return nil
}

// checkBinary refuses a file that a format of fixed records cannot read.
func checkBinary(e env.Env, format string, f *os.File) error {
	head, err := readHead(e, f)
	if err != nil {
		return err
	}
	not := format
	if format == FormatRecord {
		not = "a record file"
	}
	switch kind := sniff(head); {
	case kind != nil && kind.magic == recordMagic && format == FormatRecord:
		return nil
	case kind != nil && kind.unpack != nil:
		return fileErr(f.Name(), `not %s: it is %s; if it holds text, set data.format = "csv" or "criteo-tsv", else %s`, not, kind.is, kind.remedy)
	case kind != nil:
		return fileErr(f.Name(), "not %s: it is %s; %s", not, kind.is, kind.remedy)
	case isText(head) && isCriteoText(head):
		return fileErr(f.Name(), `not %s: it is text; set data.format = "criteo-tsv"`, not)
	case isText(head):
		return fileErr(f.Name(), `not %s: it is text; set data.format = "csv", and name its columns in [data.csv]`, not)
	}
	return nil
}

// isText reports whether the beginning of a file is text.
func isText(head []byte) bool {
	if len(head) == headBytes {
		head = head[:headBytes-utf8.UTFMax] // the last character may be cut
	}
	control := func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' && r != '\n' }
	return len(head) > 0 && utf8.Valid(head) && !strings.ContainsFunc(string(head), control)
}

// isCriteoText reports whether the first line has the fields of criteo-tsv.
func isCriteoText(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	return bytes.Count(line, []byte{'\t'}) == criteoFields-1
}

// IsRecordFile reports whether a file begins as a record file.
func IsRecordFile(name string) bool {
	f, err := regular.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(recordMagic))
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == recordMagic
}
