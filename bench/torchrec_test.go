package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// TorchRec sends the bytes of BagPipe's formula: each table's vectors, and their gradients, between all pairs of ranks.
func TestBytesOfTorchRec(t *testing.T) {
	if *peersPython == "" {
		t.Skip("go test ./bench -run BytesOfTorchRec -python PYTHON")
	}
	for _, ranks := range []string{"2", "3"} {
		var out bytes.Buffer
		r, err := torchRecBench.Run(&out, Options{Tiny: true, Args: []string{"batch=60", "dim=8", "ranks=" + ranks, "python=" + *peersPython}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", &out)
		if why := r.Missing[sysTorchRec]; why != "" {
			t.Fatal(why)
		}
		n := float64(r.mustFind(t, "vectors", "system", sysTorchRec).Median)
		want := map[string]float64{"2": 2 * 60 * 26 * 8 * 4 / 2, "3": 2 * 60 * 26 * 8 * 4 * 2 / 3}[ranks]
		if n != want {
			t.Errorf("%s ranks: %v bytes, want %v", ranks, n, want)
		}
	}
}

// Any number of ranks are connected over loopback: pooled moves the rows of the formula, within the spread of few samples.
func TestPooledOnLoopback(t *testing.T) {
	for ranks, want := range map[string]float64{"2": 2 * 600 * 26 * 8 * 4 / 2, "4": 2 * 600 * 26 * 8 * 4 * 3 / 4} {
		r, err := torchRecBench.Run(io.Discard, Options{Tiny: true, Args: []string{"batch=600", "dim=8", "ranks=" + ranks}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.mustFind(t, "vectors", "system", sysPooled).Median; got < 0.95*want || got > 1.05*want {
			t.Errorf("%s ranks: %v bytes, want %v", ranks, got, want)
		}
	}
}

func TestBadSettingsOfTorchRecAreNamed(t *testing.T) {
	for _, arg := range []string{"dim=6", "batch=1", "tables=x", "python=/none/python"} {
		_, err := torchRecBench.Run(io.Discard, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// The ids for TorchRec are those of the steps that pooled trains: by step, sample and table.
func TestIDsForTorchRec(t *testing.T) {
	d := &exchangeData{tables: []int64{5, 6}, batch: 2, ids: []uint32{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5}}
	text := d.skipSteps(1).idsOfSteps(2)
	want := []uint32{2, 2, 3, 3, 4, 4, 4, 5}
	for i, id := range want {
		if got := binary.LittleEndian.Uint32(text[4*i:]); got != id || len(text) != 4*len(want) {
			t.Fatalf("id %d is %d of %d bytes, want %d of %d", i, got, len(text), id, 4*len(want))
		}
	}
}
