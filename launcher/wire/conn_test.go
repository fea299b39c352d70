package wire

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

	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/launcher/control"
)

// recorder is a connection that keeps the bytes in memory.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)       { return r.Buffer.Read(p) }
func (r *recorder) Write(p []byte) (int, error)      { return r.Buffer.Write(p) }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// ephemerals are the keys of both ends. All connections share them, so that a frame of one can be
// replayed on another.
var ephemerals = [2]seal.Ephemeral{seal.NewEphemeral(), seal.NewEphemeral()}

// agree runs the key agreement of both ends.
func agree(a, b *Conn, aKey, bKey string) {
	errA := a.sealWith(ephemerals[0], []byte(aKey), ephemerals[1].Nonce(), false)
	errB := b.sealWith(ephemerals[1], []byte(bKey), ephemerals[0].Nonce(), true)
	if errA != nil || errB != nil {
		panic(errors.Join(errA, errB))
	}
}

// wires are two ends of one memory: b receives the messages that a sends.
func wires(key string) (a, b *Conn, c *recorder) {
	c = &recorder{}
	a, b = &Conn{conn: c}, &Conn{conn: c}
	if key != "" {
		agree(a, b, key, key)
	}
	return a, b, c
}

func TestWireCarriesMessages(t *testing.T) {
	for _, key := range []string{"", "key"} {
		a, b, _ := wires(key)
		want := []control.Message{
			{Kind: control.KindJoin, Process: 3, Processes: 4, Job: "a", Host: "b"},
			{Kind: control.KindWorld, Membership: &control.Membership{Generation: 9,
				Processes: []control.Process{{Ranks: []int{0, 2}, Addr: "a:1", Host: "h"}}, Secret: []byte{1, 2}}},
			{Kind: control.KindExited, Outcome: &control.Outcome{Code: 1, Report: &control.Report{Code: 1, Error: "x"}, Tail: []string{"a"}}},
		}
		for _, m := range want {
			if err := a.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range want {
			if got, err := b.Receive(); err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("got %v, %v, want %v", got, err, m)
			}
		}
		if _, err := b.Receive(); err != io.EOF {
			t.Errorf("after the last: %v", err)
		}
	}
}

// A frame that is changed, repeated, left out, reflected or sealed with another key is forged.
func TestWireRefusesForgeries(t *testing.T) {
	frames := func() [][]byte {
		a, _, c := wires("key")
		var all [][]byte
		for range 3 {
			if err := a.Send(control.Message{Kind: control.KindStop, Signal: 15}); err != nil {
				t.Fatal(err)
			}
			all = append(all, bytes.Clone(c.Bytes()))
			c.Reset()
		}
		return all
	}
	f := frames()
	plain, _, clear := wires("")
	if err := plain.Send(control.Message{Kind: control.KindStop, Signal: 15}); err != nil {
		t.Fatal(err)
	}
	for name, stream := range map[string][]byte{
		"another key": frames()[0], "left out": f[1], "repeated": append(bytes.Clone(f[0]), f[0]...),
		"changed": append(bytes.Clone(f[0][:len(f[0])-1]), f[0][len(f[0])-1]^1), "in clear": clear.Bytes(),
	} {
		a, b, c := wires("key")
		if name == "another key" {
			agree(a, b, "key", "another")
		}
		c.Write(stream)
		_, err := b.Receive()
		if name == "repeated" && err == nil {
			_, err = b.Receive()
		}
		if !errors.Is(err, errForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, _, c := wires("key")
	c.Write(f[0])
	if _, err := a.Receive(); !errors.Is(err, errForged) {
		t.Errorf("reflected: %v", err)
	}
}

func TestWireHasLimits(t *testing.T) {
	a, b, c := wires("")
	if err := a.Send(control.Message{Kind: control.KindRefused, Text: strings.Repeat("x", maxMessageBytes)}); err == nil {
		t.Error("a message over the limit is sent")
	}
	// The largest membership fits.
	world := &control.Membership{Processes: make([]control.Process, control.MaxProcesses)}
	for p := range world.Processes {
		world.Processes[p] = control.Process{Ranks: []int{p, p + control.MaxProcesses}, Addr: "[2001:0db8:85a3:0000:0000:8a2e:0370:7334]:65535",
			Host: strings.Repeat("h", 64) + "/00000000-0000-0000-0000-000000000000/mnt:[4026531840]"}
	}
	if err := a.Send(control.Message{Kind: control.KindWorld, Membership: world}); err != nil {
		t.Error(err)
	}
	if _, err := b.Receive(); err != nil {
		t.Error(err)
	}
	var head [seal.HeadBytes]byte
	binary.BigEndian.PutUint32(head[:], maxMessageBytes+seal.Overhead+1)
	c.Write(head[:])
	if _, err := b.Receive(); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("a length over the limit: %v", err)
	}
}

// An observer of a connection sees only the lengths of messages.
func TestWireShowsNothing(t *testing.T) {
	a, _, c := wires("key")
	if err := a.Send(control.Message{Kind: control.KindWelcome, Secret: []byte("the secret"), Text: "a text"}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"welcome", "dGhlIHNlY3JldA", "a text"} {
		if bytes.Contains(c.Bytes(), []byte(text)) {
			t.Errorf("%q crosses in clear", text)
		}
	}
}

// No input makes a receiver crash or accept a message.
func FuzzWire(f *testing.F) {
	a, _, c := wires("key")
	if err := a.Send(control.Message{Kind: control.KindJoin, Process: 1}); err != nil {
		f.Fatal(err)
	}
	f.Add(c.Bytes()[:20])
	f.Add(append([]byte{0x80, 0, 0, 15}, `{"kind":"join"}`...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n............................"))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, b, c := wires("an unknown key")
		c.Write(p)
		if m, err := b.Receive(); err == nil {
			t.Errorf("accepted %v", m)
		}
	})
}
