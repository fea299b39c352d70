package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

func TestBadSettingsOfCollectivesAreNamed(t *testing.T) {
	for _, arg := range []string{"sizes=", "sizes=4K,", "sizes=4", "sizes=x", "sizes=4G", "sizes=-1", "sizes=1025M",
		"operations=", "operations=all_reduce,", "operations=reduce", "transport=x", "transport=shm", "transport=tcp",
		"transport=mpi", "columns=", "columns=x"} {
		_, err := collectivesBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// Parts are equal, and reductions have entire floats, for each size.
func TestSizesAreCutToWhatIsMoved(t *testing.T) {
	b := &collectivesRun{ranks: 3, chosen: operations}
	if err := b.setSizes("4K,1M,50"); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, c := range b.cases {
		got = append(got, c.bytes)
	}
	want := []int{4096, 1 << 20, 48, 4095, 1<<20 - 1, 48, 4095, 1<<20 - 1, 48, 4096, 1 << 20, 50}
	if !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// The check of each operation finds nothing wrong in what it gives, and sees one
// element that is changed.
func TestWrongElementsAreCounted(t *testing.T) {
	const ranks, size = 3, 1200
	var all [ranks]*collectivesRank
	for i, ep := range transport.NewMem(env.Real(), ranks, 1) {
		m, err := newCollectivesMemory(size)
		if err != nil {
			t.Fatal(err)
		}
		defer m.freeBuffers()
		r := newCollectivesRank(env.Real(), ep, m, func() bool { return false })
		defer r.leaveJob()
		for n := range r.counts {
			r.counts[n] = size / ranks
		}
		all[i] = r
	}
	for _, op := range operations {
		for _, r := range all {
			r.chooseBuffer(op)
			clear(r.dst.Host())
			op.fill(r, size)
		}
		handles := make(chan error, ranks)
		for _, r := range all {
			h := op.start(r, size).Start()
			go func() { handles <- h.Wait() }()
		}
		for range all {
			if err := <-handles; err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range all {
			right := op.wrong(r, size)
			r.dst.Host()[size-1] ^= 0x40
			if wrong := op.wrong(r, size); right != 0 || wrong != 1 {
				t.Errorf("%s, rank %d: %d wrong, and %d with one changed", op.name, i, right, wrong)
			}
		}
	}
}

func TestStopEndsTheBenchmarkOnAllRanks(t *testing.T) {
	_, err := collectivesBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"transport=mem"},
		World: &World{Size: 2, Stop: func() bool { return true }}})
	if !errors.Is(err, ErrStopped) || errors.As(err, new(*transport.PeerLost)) {
		t.Error(err)
	}
}

func TestWhyOpenMPIIsNotMeasured(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	tool := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(why string) {
		t.Helper()
		if m, err := newOpenMPI(2); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, %v; want %q", m, err, why)
		}
	}
	refused("no mpirun")
	tool("mpirun", "echo HYDRA build details")
	refused("no mpicc")
	tool("mpicc", "echo; echo '--- ' >&2; echo 'no headers' >&2; exit 3")
	refused("mpirun is not Open MPI's")
	tool("mpirun", "echo 'mpirun (Open MPI) 4.1.4'; echo more")
	refused("mpicc: exit status 3: no headers")

	tool("mpicc", "")
	m, err := newOpenMPI(2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.removeFolder()
	cases := []collectiveCase{{operations[0], 64}, {operations[1], 64}}
	for _, said := range []string{"", "1.5", "1.5 x", "1.5 0", "1 2 3"} {
		tool("mpirun", "echo "+said)
		if us, err := m.timeCases(cases); err == nil {
			t.Errorf("%q was taken for %v", said, us)
		}
	}
	tool("mpirun", "echo 1.5 2")
	if us, err := m.timeCases(cases); err != nil || !slices.Equal(us, []float64{1.5, 2}) || m.version != "Open MPI 4.1.4" {
		t.Errorf("%v, %v, %q", us, err, m.version)
	}
}

func TestOpenMPIRunsByItself(t *testing.T) {
	got := openMPIVariables([]string{"PATH=/bin", "OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=1", "PMI_FD=3", "HOME=/h"}, false)
	want := []string{"OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo", "PATH=/bin", "HOME=/h"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if root := openMPIVariables(nil, true); !slices.Contains(root, "OMPI_ALLOW_RUN_AS_ROOT=1") {
		t.Errorf("%q", root)
	}
}
