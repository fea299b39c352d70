package launcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recorder is a connection into memory.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)       { return r.Buffer.Read(p) }
func (r *recorder) Write(p []byte) (int, error)      { return r.Buffer.Write(p) }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// wires are two ends of one memory: what a sends, b receives.
func wires(key string) (a, b *wire, c *recorder) {
	c = &recorder{}
	a, b = &wire{conn: c, us: 0, them: 1}, &wire{conn: c, us: 1, them: 0}
	if key != "" {
		a.rekey([]byte(key), []byte("x"), []byte("y"))
		b.rekey([]byte(key), []byte("x"), []byte("y"))
	}
	return a, b, c
}

func TestWireCarriesMessages(t *testing.T) {
	for _, key := range []string{"", "key"} {
		a, b, _ := wires(key)
		want := []message{
			{Kind: kindJoin, Process: 3, Processes: 4, Job: "a", Host: "b"},
			{Kind: kindWorld, World: &members{Generation: 9, Processes: []Process{{Ranks: []int{0, 2}, Addr: "a:1", Host: "h"}}, Secret: []byte{1, 2}}},
			{Kind: kindEnded, Outcome: &outcome{Code: 1, Report: &Report{Code: 1, Error: "x"}, Tail: []string{"a"}}},
		}
		for _, m := range want {
			if err := a.send(m); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range want {
			if got, err := b.receive(); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("got %v, %v, want %v", got, err, m)
			}
		}
		if _, err := b.receive(); err != io.EOF {
			t.Errorf("after the last: %v", err)
		}
	}
}

// A frame that is changed, repeated, left out, sent back or of another key is
// forged.
func TestWireRefusesForgeries(t *testing.T) {
	frames := func() [][]byte {
		a, _, c := wires("key")
		var all [][]byte
		for range 3 {
			if err := a.send(message{Kind: kindStop, Signal: 15}); err != nil {
				t.Fatal(err)
			}
			all = append(all, bytes.Clone(c.Bytes()))
			c.Reset()
		}
		return all
	}
	f := frames()
	for name, stream := range map[string][]byte{
		"another key": frames()[0], "left out": f[1], "repeated": append(bytes.Clone(f[0]), f[0]...),
		"changed": bytes.Replace(f[0], []byte("15"), []byte("16"), 1),
	} {
		_, b, c := wires("key")
		if name == "another key" {
			b.rekey([]byte("another"), []byte("x"), []byte("y"))
		}
		c.Write(stream)
		_, err := b.receive()
		if name == "repeated" && err == nil {
			_, err = b.receive()
		}
		if !errors.Is(err, errForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, _, c := wires("key")
	c.Write(f[0])
	if _, err := a.receive(); !errors.Is(err, errForged) {
		t.Errorf("sent back: %v", err)
	}
}

func TestWireHasLimits(t *testing.T) {
	a, b, c := wires("")
	if err := a.send(message{Kind: kindRefused, Text: strings.Repeat("x", maxMessageBytes)}); err == nil {
		t.Error("a message over the limit is sent")
	}
	// The largest world fits.
	world := &members{Processes: make([]Process, maxProcesses)}
	for p := range world.Processes {
		world.Processes[p] = Process{Ranks: ranksOf(p, maxProcesses, 2*maxProcesses), Addr: "[2001:0db8:85a3:0000:0000:8a2e:0370:7334]:65535",
			Host: strings.Repeat("h", 64) + "/00000000-0000-0000-0000-000000000000/mnt:[4026531840]"}
	}
	if err := a.send(message{Kind: kindWorld, World: world}); err != nil {
		t.Error(err)
	}
	if _, err := b.receive(); err != nil {
		t.Error(err)
	}
	var head [36]byte
	binary.BigEndian.PutUint32(head[:], maxMessageBytes+1)
	c.Write(head[:])
	if _, err := b.receive(); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("a length over the limit: %v", err)
	}
}

// No bytes make a receiver crash or believe.
func FuzzWire(f *testing.F) {
	a, _, c := wires("key")
	if err := a.send(message{Kind: kindJoin, Process: 1}); err != nil {
		f.Fatal(err)
	}
	f.Add(c.Bytes()[:20])
	f.Add(append(make([]byte, 36), `{"kind":"join"}`...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n............................"))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, b, c := wires("key that nobody knows")
		c.Write(p)
		if m, err := b.receive(); err == nil {
			t.Errorf("believed %v", m)
		}
	})
}
