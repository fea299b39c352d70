package place

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "rendezvous")
	if _, _, err := readRecord(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file: %v", err)
	}
	secret := DrawSecret()
	if err := writeRecord(path, "127.0.0.1:4000", secret); err != nil {
		t.Fatal(err)
	}
	m, got, err := readRecord(path)
	if err != nil || m != (Rendezvous{"tcp", "127.0.0.1:4000"}) || string(got) != string(secret) {
		t.Fatalf("read %v, %x, %v", m, got, err)
	}
	if s, _ := os.Stat(path); s.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", s.Mode())
	}
	at := Rendezvous{"file", path}
	at.Withdraw(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4001}) // another host's
	if _, _, err := readRecord(path); err != nil {
		t.Errorf("another host's record is removed: %v", err)
	}
	at.Withdraw(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000})
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, text := range []string{"", "127.0.0.1:4000", "127.0.0.1:4000/12",
		"127.0.0.1/" + strings.Repeat("ab", secretBytes), strings.Repeat("x", 2*maxRecord)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, _, err := readRecord(path); err == nil {
			t.Errorf("%.40q is read as %v", text, m)
		}
	}
	if err := os.WriteFile(path, []byte(formatRecord("127.0.0.1:4000", secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readRecord(path); !errors.Is(err, ErrPlace) {
		t.Errorf("a file that others may read: %v", err)
	}
}

func TestParseRecord(t *testing.T) {
	good := "10.0.0.1:77/" + strings.Repeat("ab", secretBytes)
	m, secret, err := parseRecord(good)
	if err != nil || m != (Rendezvous{"tcp", "10.0.0.1:77"}) || len(secret) != secretBytes {
		t.Errorf("%v, %d bytes, %v", m, len(secret), err)
	}
	for _, bad := range []string{"", "unknown", good[:40], "x/" + good[12:], good + "00", strings.Replace(good, "ab", "xx", 1)} {
		if _, _, err := parseRecord(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
