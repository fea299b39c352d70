package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
)

var suites = []Suite{AES256GCM, ChaCha20Poly1305}

// agree is both ends of a connection, first the end that dialled.
func agree(tb testing.TB, suite Suite, secret string) (a, b *Pair) {
	tb.Helper()
	x, y := NewEphemeral(), NewEphemeral()
	a, err := x.Agree(suite, []byte(secret), y.Nonce(), true, "test", x.Nonce(), y.Nonce())
	if err != nil {
		tb.Fatal(err)
	}
	b, err = y.Agree(suite, []byte(secret), x.Nonce(), false, "test", x.Nonce(), y.Nonce())
	if err != nil {
		tb.Fatal(err)
	}
	return a, b
}

// buffer is a connection in memory: a read returns the bytes that were written.
type buffer struct {
	net.Conn
	bytes.Buffer
}

func (b *buffer) Read(p []byte) (int, error)  { return b.Buffer.Read(p) }
func (b *buffer) Write(p []byte) (int, error) { return b.Buffer.Write(p) }

// records seals each part in a record, and returns the records.
func records(p *Pair, parts ...string) (all [][]byte) {
	var b buffer
	c := NewConn(&b, p)
	for _, part := range parts {
		_, _ = c.Write([]byte(part)) // a buffer never fails
		all = append(all, bytes.Clone(b.Bytes()))
		b.Reset()
	}
	return all
}

func open(p *Pair, stream ...[]byte) (string, error) {
	var b buffer
	b.Buffer.Write(slices.Concat(stream...))
	got, err := io.ReadAll(NewConn(&b, p))
	return string(got), err
}

func TestConnCarriesAnyParts(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite.String(), func(t *testing.T) {
			a, b := agree(t, suite, "swordfish")
			near, far := net.Pipe()
			r := rand.New(rand.NewPCG(1, 2))
			var sent []byte
			var calls [][][]byte
			for range 60 {
				var parts [][]byte
				for range r.IntN(20) {
					longest := []int{3, 100, aloneBytes, 3 * recordBytes}[r.IntN(4)]
					p := make([]byte, r.IntN(longest))
					for i := range p {
						p[i] = byte(r.Uint32())
					}
					parts = append(parts, p)
					sent = append(sent, p...)
				}
				calls = append(calls, parts)
			}
			go func() {
				c := NewConn(near, a)
				for _, parts := range calls {
					if err := c.WriteParts(parts...); err != nil {
						t.Error(err)
					}
				}
				_ = near.Close()
			}()
			c := NewConn(far, b)
			var got []byte
			for {
				p := make([]byte, []int{1, 64, recordBytes - 1, 4 * recordBytes}[r.IntN(4)])
				n, err := c.Read(p)
				got = append(got, p[:n]...)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes came of %d", len(got), len(sent))
			}
		})
	}
}

func TestNothingCrossesInClear(t *testing.T) {
	a, _ := agree(t, Fastest(), "swordfish")
	const marker = "a row of the model"
	for _, r := range records(a, marker, marker+string(make([]byte, aloneBytes))) {
		if bytes.Contains(r, []byte(marker)) {
			t.Errorf("a record of %d bytes shows its text", len(r))
		}
	}
}

// TestTamperingIsDetected changes the records of "one", "two" and "three" on the way. Each
// case names the texts that may still be received.
func TestTamperingIsDetected(t *testing.T) {
	flip := func(r []byte, at int) []byte {
		r = bytes.Clone(r)
		r[at] ^= 0x10
		return r
	}
	for _, suite := range suites {
		for _, c := range []struct {
			name   string
			stream func(r, back [][]byte) [][]byte
			got    string
			want   error
		}{
			{"untouched", func(r, _ [][]byte) [][]byte { return r }, "onetwothree", nil},
			{"text changed", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], flip(r[1], HeadBytes), r[2]} }, "one", ErrForged},
			{"tag changed", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], flip(r[1], len(r[1])-1), r[2]} }, "one", ErrForged},
			{"shorter", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], flip(r[1], 3), r[2]} }, "one", ErrForged},
			{"too short for a tag", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], {0, 0, 0, Overhead}, r[2]} }, "one", ErrForged},
			{"too long", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], flip(r[1], 0), r[2]} }, "one", ErrForged},
			{"repeated", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], r[0], r[1]} }, "one", ErrForged},
			{"left out", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], r[2]} }, "one", ErrForged},
			{"exchanged", func(r, _ [][]byte) [][]byte { return [][]byte{r[1], r[0], r[2]} }, "", ErrForged},
			{"cut", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], r[1][:len(r[1])-1]} }, "one", io.ErrUnexpectedEOF},
			{"cut in a head", func(r, _ [][]byte) [][]byte { return [][]byte{r[0], r[1][:2]} }, "one", io.ErrUnexpectedEOF},
			{"sent back", func(r, back [][]byte) [][]byte { return [][]byte{r[0], back[1]} }, "one", ErrForged},
			{"of another connection", func(r, _ [][]byte) [][]byte {
				other, _ := agree(t, suite, "swordfish")
				return [][]byte{r[0], records(other, "one", "two")[1]}
			}, "one", ErrForged},
		} {
			a, b := agree(t, suite, "swordfish")
			back := records(&Pair{Out: b.Out}, "one", "two")
			got, err := open(&Pair{In: b.In}, c.stream(records(a, "one", "two", "three"), back)...)
			if got != c.got || !errors.Is(err, c.want) {
				t.Errorf("%v, %s: got %q, %v, want %q, %v", suite, c.name, got, err, c.got, c.want)
			}
		}
	}
}

func TestErrorsStay(t *testing.T) {
	a, b := agree(t, Fastest(), "swordfish")
	r := records(a, "one", "two")
	r[0][HeadBytes] ^= 1
	var m buffer
	m.Buffer.Write(slices.Concat(r...))
	c := NewConn(&m, b)
	for range 3 {
		if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrForged) {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
}

// late is a connection that returns few bytes at a time, and before each of them that there are none yet.
type late struct {
	buffer
	bytes int
	has   bool
}

func (l *late) Read(p []byte) (int, error) {
	if l.has = !l.has; l.has {
		return 0, syscall.EAGAIN
	}
	return l.Buffer.Read(p[:min(len(p), l.bytes)])
}

// A record whose head or rest has not arrived is read later, with the bytes that have.
func TestReadsWithoutWaiting(t *testing.T) {
	for _, n := range []int{1, 3, HeadBytes, 7, 1000} {
		a, b := agree(t, Fastest(), "swordfish")
		m := late{bytes: n}
		want := string(bytes.Repeat([]byte("x"), 3000))
		m.Buffer.Write(slices.Concat(records(a, "one", want, "two")...))
		c, got, none := NewConn(&m, b), "", 0
		for {
			p := make([]byte, 100)
			read, err := c.Read(p)
			got += string(p[:read])
			if errors.Is(err, syscall.EAGAIN) {
				if none++; none > 10000 {
					t.Fatalf("%d bytes at a time: nothing more arrives after %d bytes of plaintext", n, len(got))
				}
			} else if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got != "one"+want+"two" || none == 0 {
			t.Errorf("%d bytes at a time: %d bytes of plaintext, want %d; %d times none", n, len(got), len(want)+6, none)
		}
	}
}

func TestBothMustAgreeOnEverything(t *testing.T) {
	x, y := NewEphemeral(), NewEphemeral()
	type side struct {
		suite            Suite
		secret, purpose  string
		first            bool
		said, transcript string
	}
	pair := func(e Ephemeral, s side) *Pair {
		p, err := e.Agree(s.suite, []byte(s.secret), []byte(s.said), s.first, s.purpose, []byte(s.transcript))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := pair(x, side{AES256GCM, "swordfish", "test", true, string(y.Nonce()), "hello"})
	for name, b := range map[string]side{
		"":                     {AES256GCM, "swordfish", "test", false, string(x.Nonce()), "hello"},
		"another secret":       {AES256GCM, "sawfish", "test", false, string(x.Nonce()), "hello"},
		"another suite":        {ChaCha20Poly1305, "swordfish", "test", false, string(x.Nonce()), "hello"},
		"another purpose":      {AES256GCM, "swordfish", "best", false, string(x.Nonce()), "hello"},
		"another nonce":        {AES256GCM, "swordfish", "test", false, string(NewEphemeral().Nonce()), "hello"},
		"another transcript":   {AES256GCM, "swordfish", "test", false, string(x.Nonce()), "hallo"},
		"both first to speak":  {AES256GCM, "swordfish", "test", true, string(x.Nonce()), "hello"},
		"the secret and a bit": {AES256GCM, "swordfish\x00", "test", false, string(x.Nonce()), "hello"},
	} {
		d := *a.Out // each copy begins at record 0
		_, err := pair(y, b).In.Open(nil, d.Seal(nil, []byte("text"), nil), nil)
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.Agree(AES256GCM, nil, make([]byte, NonceBytes), true, "test"); err == nil {
		t.Error("the point 0, with which all keys agree, is taken")
	}
}

// TestNoNonceIsUsedTwice counts the pairs of key and nonce of several connections with
// one secret, over changes of keys.
func TestNoNonceIsUsedTwice(t *testing.T) {
	const connections, sealed, perKey = 5, 1000, 64
	used := map[string]int{}
	for range connections {
		a, b := agree(t, ChaCha20Poly1305, "swordfish")
		for _, way := range []struct{ out, in *Direction }{{a.Out, b.In}, {b.Out, a.In}} {
			way.out.limit, way.in.limit = perKey, perKey
			for i := range sealed {
				text := fmt.Sprint("record ", i)
				r := way.out.Seal(nil, []byte(text), nil)
				used[string(way.out.key)+string(way.out.nonce[:])]++
				if got, err := way.in.Open(nil, r, nil); err != nil || string(got) != text {
					t.Fatalf("%q, %v", got, err)
				}
			}
		}
	}
	if len(used) != connections*2*sealed {
		t.Errorf("%d records were sealed under %d pairs of key and nonce", connections*2*sealed, len(used))
	}
}

func TestSealingAllocatesNothing(t *testing.T) {
	for _, suite := range suites {
		a, b := agree(t, suite, "swordfish")
		var m buffer
		out, in := NewConn(&m, &Pair{Out: a.Out}), NewConn(&m, &Pair{In: b.In})
		head, payload, got := make([]byte, 64), make([]byte, 3*recordBytes), make([]byte, 3*recordBytes)
		round := func() {
			if err := out.WriteParts(head, payload, head); err != nil {
				t.Fatal(err)
			}
			for _, p := range [][]byte{got[:64], got, got[:64]} {
				if _, err := io.ReadFull(in, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		round()
		if n := testing.AllocsPerRun(50, round); n > 0 {
			t.Errorf("%v: %v allocations for a frame", suite, n)
		}
	}
}

// FuzzConn reads a stream that an attacker on the path has changed. The bytes received must
// be those sent, up to the first changed one.
func FuzzConn(f *testing.F) {
	const text = "what was sent, and nothing else"
	ends := func() (out, in *Direction) {
		prk := make([]byte, KeyBytes)
		return newDirection(ChaCha20Poly1305, prk, "fuzz", fromFirst), newDirection(ChaCha20Poly1305, prk, "fuzz", fromFirst)
	}
	out, _ := ends()
	stream := slices.Concat(records(&Pair{Out: out}, text[:5], text[5:12], text[12:])...)
	f.Add(stream)
	f.Add(stream[:20])
	f.Add(append([]byte{0, 0, 0, 17}, stream...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, in := ends()
		got, err := open(&Pair{In: in}, b)
		if len(got) > len(text) || got != text[:len(got)] {
			t.Fatalf("%q was received", got)
		}
		if err == nil && len(b) > len(stream) {
			t.Fatal("more came than was sent, without an error")
		}
	})
}
