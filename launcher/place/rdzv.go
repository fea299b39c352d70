package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const filePrefix = "file:"

// isFile reports whether --rdzv names a file: it has a slash, or begins with file:.
func isFile(rdzv string) bool {
	return strings.ContainsRune(rdzv, '/') || strings.HasPrefix(rdzv, filePrefix)
}

// parseFile is the rendezvous of --rdzv FILE. The path of file:///a/b is /a/b.
func parseFile(rdzv string) (Rendezvous, error) {
	path := strings.TrimPrefix(rdzv, filePrefix)
	if strings.HasPrefix(path, "///") {
		path = path[2:]
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return Rendezvous{}, Errorf("--rdzv %s: want HOST:PORT, or a file in a folder that all machines see", rdzv)
	}
	path, err := filepath.Abs(path)
	return Rendezvous{"file", path}, err
}

// parseRdzv is the rendezvous of --rdzv, after checkRdzv.
func parseRdzv(rdzv string) Rendezvous {
	switch {
	case rdzv == "":
		return Rendezvous{}
	case isFile(rdzv):
		r, _ := parseFile(rdzv) // checkRdzv has returned its error
		return r
	}
	return Rendezvous{"tcp", rdzv}
}

func checkRdzv(rdzv string) (err error) {
	switch {
	case isFile(rdzv):
		_, err = parseFile(rdzv)
	case rdzv != "":
		err = checkAddress("--rdzv", rdzv)
	}
	return err
}

// sharedFile is the rendezvous of processes that share a folder and a key.
func sharedFile(folder, key string) Rendezvous {
	return Rendezvous{"file", filepath.Join(folder, fmt.Sprintf(".rendezvous-%016x", hashOf(key)))}
}

// IsWaitingIn reports whether a process of this job already waits for the others by a file in
// a folder.
func (p Place) IsWaitingIn(folder string) bool {
	if p.Rendezvous.Network != "shared" {
		return false
	}
	_, err := os.Lstat(sharedFile(folder, p.Rendezvous.Address).Address)
	return err == nil
}

// In completes a place by the job's folder, "" if it has none: a shared rendezvous is a file
// there, and that is the fallback of a local socket.
func (p Place) In(folder string) (Place, error) {
	switch {
	case p.Rendezvous.Network == "shared" && folder == "":
		return p, MissingSecret()
	case p.Rendezvous.Network == "shared":
		p.Rendezvous = sharedFile(folder, p.Rendezvous.Address)
	case p.Rendezvous.Network == "unix" && folder != "":
		p.Fallback = sharedFile(folder, p.Rendezvous.Address)
	}
	return p, nil
}
