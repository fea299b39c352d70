package train

import (
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// TestCopyRowsWaitsForNoDisk: while the disk does nothing, rows are copied as long as there are buffers, and no step
// waits. When the rows that are aside have reached their bound, the copy continues with the disk, so that they do
// not grow.
func TestCopyRowsWaitsForNoDisk(t *testing.T) {
	const rows, width = 4096, 512 // 8 MiB
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	defer s.Close()
	h, err := shard.New(dev, s, shard.Options{Map: placement.New([]int64{rows}, 1), Width: width})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Store(0, kernels.Mat(kernels.HostBuffer(make([]float32, rows*width)), rows, width)); err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	e := disk{env.Real(), func(what string, f func() error) error {
		if strings.HasPrefix(what, "write ") {
			<-free
		}
		return f()
	}}
	save := &checkpoint.Save{Env: e, Dir: t.TempDir(), Step: 1, Ranks: 1,
		Model: checkpoint.Model{Kind: "dlrm", Tables: []checkpoint.Table{{Name: "a", Rows: rows}}, Width: width}}
	if err := save.Begin(); err != nil {
		t.Fatal(err)
	}
	k := &checkpointer{part: &part{env: e, shard: h}, topology: &topology{cfg: &config.Config{}}}
	x := &saving{save: save, pin: h.Pin()}
	if x.rows, err = save.OpenRows(0, x.pin); err != nil {
		t.Fatal(err)
	}
	whole := x.rows.Left()
	within(t, 10*time.Second, func() {
		for range 100 {
			k.copyRows(x, time.Second)
		}
	})
	if left := x.rows.Left(); left == 0 || left > whole-2<<20 || x.rows.IsReady() {
		t.Fatalf("%d of %d bytes are left", left, whole)
	}
	slots := make([]int32, 600) // the last ones
	for i := range slots {
		slots[i] = int32(rows - 1 - i)
	}
	write := func(slots []int32) {
		values := make([]float32, len(slots)*width)
		if err := h.StoreRows(slots, kernels.Mat(kernels.HostBuffer(values), len(slots), width)); err != nil {
			t.Fatal(err)
		}
	}
	write(slots) // 600 of the 1,024 that may be aside
	within(t, 10*time.Second, func() { k.copyRows(x, time.Second) })
	for i := range slots {
		slots[i] -= 600
	}
	write(slots)
	ended := make(chan struct{})
	go func() {
		k.copyRows(x, time.Second)
		close(ended)
	}()
	select {
	case <-ended:
		t.Errorf("%d bytes are aside, and the copy did not go on", x.pin.Bytes())
	case <-time.After(100 * time.Millisecond):
	}
	close(free)
	<-ended
	if x.rows != nil || x.pin != nil || x.err != nil {
		t.Fatalf("rows are left (%v)", x.err)
	}
	if x.awaitWork(); x.err != nil || x.part.Rows != rows {
		t.Errorf("%+v, %v", x.part, x.err)
	}
}
