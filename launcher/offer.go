package launcher

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
	"time"
)

// An offer is what a host writes into a file that all machines see: where it listens, and
// the job's secret. Nobody but the user may read it. It is removed when the host ends; one
// that was left behind leads to nobody, or to somebody who does not know the secret, and is
// written anew.

// isFile reports whether --rdzv names a file: it has a slash, or begins with file:.
func isFile(rdzv string) bool {
	return strings.ContainsRune(rdzv, '/') || strings.HasPrefix(rdzv, filePrefix)
}

const filePrefix = "file:"

// fileMeeting is where processes meet by a file. Of file:///a/b the path is /a/b.
func fileMeeting(rdzv string) (Meeting, error) {
	path := strings.TrimPrefix(rdzv, filePrefix)
	if strings.HasPrefix(path, "///") {
		path = path[2:]
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return Meeting{}, placeErrorf("--rdzv %s: want HOST:PORT, or a file in a folder that all machines see", rdzv)
	}
	path, err := filepath.Abs(path)
	return Meeting{"file", path}, err
}

// sharedFile is where processes meet that have a folder in common, and a key.
func sharedFile(folder, key string) Meeting {
	return Meeting{"file", filepath.Join(folder, fmt.Sprintf(".rendezvous-%016x", hash(key)))}
}

// writeOffer makes an offer.
func writeOffer(path, address string, secret []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*") // for the user only
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, offerText(address, secret))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// readOffer reads one. Where it is not there yet the error is fs.ErrNotExist.
func readOffer(path string) (Meeting, []byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A network file system may remember for a while that there was none, unless the
		// folder is read.
		_, _ = os.ReadDir(filepath.Dir(path)) // what Open says counts
		f, err = os.Open(path)
	}
	if err != nil {
		return Meeting{}, nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return Meeting{}, nil, err
	}
	if s, ok := stat.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Getuid() || stat.Mode().Perm()&0o077 != 0) {
		return Meeting{}, nil, placeErrorf("the rendezvous file %s is not this user's alone (user %d, mode %v): whoever wrote it is not this job; remove it, or name another with --rdzv", path, s.Uid, stat.Mode().Perm())
	}
	text := make([]byte, maxOffer)
	n, err := f.Read(text)
	if err != nil {
		return Meeting{}, nil, err
	}
	return parseOffer(strings.TrimSpace(string(text[:n])))
}

const maxOffer = 1 << 10

// offerText is address/secret; parseOffer reads it.
func offerText(address string, secret []byte) string {
	return address + "/" + hex.EncodeToString(secret)
}

func parseOffer(offer string) (Meeting, []byte, error) {
	address, text, _ := strings.Cut(offer, "/")
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != secretBytes || checkAddress("", address) != nil {
		return Meeting{}, nil, errors.New("process 0's address is not what ecrec writes there")
	}
	return Meeting{"tcp", address}, secret, nil
}

// offer listens, and says in the file where, unless a job is met there.
func (p Place) offer(secret []byte) (net.Listener, error) {
	if old, _, err := readOffer(p.Meet.Address); errors.Is(err, ErrPlace) {
		return nil, err
	} else if err == nil && old.answers() {
		return nil, fmt.Errorf("rendezvous %s is in use by another job; name another with --rdzv", p.Meet.Address)
	}
	host := "127.0.0.1"
	if !p.OneHost {
		var err error
		if host, err = OwnAddress(); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other processes: %w", err)
	}
	if err := writeOffer(p.Meet.Address, l.Addr().String(), secret); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot write the rendezvous file: %w; name another with --rdzv", err)
	}
	return l, nil
}

// withdraw removes an offer of who listens at an address, if it is still that one's.
func (m Meeting) withdraw(address net.Addr) {
	if m.Network != "file" {
		return
	}
	if at, _, err := readOffer(m.Address); err == nil && at.Address == address.String() {
		_ = os.Remove(m.Address) // one that stays is found to be stale
	}
}

// answers reports whether somebody is there who speaks our protocol.
func (m Meeting) answers() bool {
	conn, err := net.DialTimeout(m.Network, m.socket(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // a connection that cannot have one is broken
	first, err := (&wire{conn: conn, us: 1, them: 0}).receive()
	return err == nil && first.Kind == kindNonce
}
