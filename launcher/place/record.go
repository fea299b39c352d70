package place

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A rendezvous record is the host's address and the job's secret. In a file only the user may
// read it. The host removes the file when it ends. A stale file is harmless: its address
// fails the secret check, and the next host overwrites it.

// maxRecord bounds a record's file, in bytes.
const maxRecord = 1 << 10

// formatRecord is a record as text, address/secret; parseRecord reads it.
func formatRecord(address string, secret []byte) string {
	return address + "/" + hex.EncodeToString(secret)
}

func parseRecord(record string) (Rendezvous, []byte, error) {
	address, text, _ := strings.Cut(record, "/")
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != secretBytes || checkAddress("", address) != nil {
		return Rendezvous{}, nil, errors.New("process 0's address is not a record of ecrec")
	}
	return Rendezvous{"tcp", address}, secret, nil
}

// writeRecord writes a record into a file, in one step.
func writeRecord(path, address string, secret []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*") // for the user only
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, formatRecord(address, secret))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// readRecord reads a file with a record. The error is fs.ErrNotExist if there is none yet.
func readRecord(path string) (Rendezvous, []byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A network file system may cache for a while that there was no file, unless the
		// folder is read.
		_, _ = os.ReadDir(filepath.Dir(path)) // the error of Open counts
		f, err = os.Open(path)
	}
	if err != nil {
		return Rendezvous{}, nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return Rendezvous{}, nil, err
	}
	if s, ok := stat.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Getuid() || stat.Mode().Perm()&0o077 != 0) {
		return Rendezvous{}, nil, Errorf("the rendezvous file %s is not this user's alone (user %d, mode %v): another program may have written it; remove it, or name another with --rdzv", path, s.Uid, stat.Mode().Perm())
	}
	text := make([]byte, maxRecord)
	n, err := f.Read(text)
	if err != nil {
		return Rendezvous{}, nil, err
	}
	return parseRecord(strings.TrimSpace(string(text[:n])))
}

// Withdraw removes the record of a host that listens at an address, if the file still holds
// that.
func (r Rendezvous) Withdraw(address net.Addr) {
	if r.Network != "file" {
		return
	}
	if host, _, err := readRecord(r.Address); err == nil && host.Address == address.String() {
		_ = os.Remove(r.Address) // a stale file is harmless
	}
}
