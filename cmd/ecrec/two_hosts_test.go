package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// twoHosts is this host and a network namespace in the role of another one, connected by a virtual
// cable that can be recorded.
type twoHosts struct {
	namespace, cable string
	address          string // of this host on the cable
}

// newTwoHosts skips the test if such hosts cannot be created.
func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need ip, of iproute2")
	}
	pid := os.Getpid()
	h := &twoHosts{namespace: fmt.Sprintf("ecrec%d", pid), cable: fmt.Sprintf("ec%d", pid), address: fmt.Sprintf("198.18.%d.1", pid%250)}
	far, farAddress := h.cable+"x", strings.TrimSuffix(h.address, "1")+"2"
	for i, line := range []string{
		"netns add " + h.namespace,
		"link add " + h.cable + " type veth peer name " + far,
		"link set " + far + " netns " + h.namespace,
		"addr add " + h.address + "/30 dev " + h.cable,
		"link set " + h.cable + " up",
		"-n " + h.namespace + " addr add " + farAddress + "/30 dev " + far,
		"-n " + h.namespace + " link set " + far + " up",
	} {
		out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
		if err != nil && i == 0 {
			t.Skipf("ip %s: %v: %s", line, err, out)
		}
		if i == 0 {
			t.Cleanup(func() { // the cable goes with one of its ends
				_ = exec.Command("ip", "netns", "del", h.namespace).Run()
				_ = exec.Command("ip", "link", "del", h.cable).Run()
			})
		}
		if err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	return h
}

// capture returns the bytes that cross the cable while f runs.
func (h *twoHosts) capture(t *testing.T, f func()) []byte {
	t.Helper()
	const allProtocols = 0x0300 // ETH_P_ALL, big-endian
	cable, err := net.InterfaceByName(h.cable)
	if err != nil {
		t.Fatal(err)
	}
	s, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, allProtocols)
	if err != nil {
		t.Skipf("packets cannot be captured: %v", err)
	}
	defer syscall.Close(s)
	_ = syscall.SetsockoptInt(s, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 64<<20) // else some are lost
	if err := syscall.Bind(s, &syscall.SockaddrLinklayer{Protocol: allProtocols, Ifindex: cable.Index}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetsockoptTimeval(s, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000}); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	over := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		packet := make([]byte, 1<<17)
		for {
			n, _, err := syscall.Recvfrom(s, packet, 0)
			if err == nil {
				all.Write(packet[:n])
				continue
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	f()
	close(over)
	reading.Wait()
	return all.Bytes()
}

// train runs a job of two processes, one on each host.
func (h *twoHosts) train(t *testing.T, args []string, port string) {
	t.Helper()
	program := ecrec(t)
	vars := []string{"WORLD_SIZE=2", "MASTER_ADDR=" + h.address, "MASTER_PORT=" + port, "ECREC_SECRET=0123456789abcdef0123456789abcdef"}
	var both sync.WaitGroup
	for rank, line := range [][]string{{program}, {"ip", "netns", "exec", h.namespace, program}} {
		both.Go(func() {
			line := append(line, args...)
			cmd, out, errs := start(line[0], append(vars, fmt.Sprint("RANK=", rank)), line[1:]...)
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			limit := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer limit.Stop()
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v\n%s%s", rank, err, out, errs)
			}
		})
	}
	both.Wait()
}

// embeddingRows returns the rows of a model's tables, each of size bytes.
func embeddingRows(t *testing.T, path string) (rows [][]byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]struct {
		Shape   []int
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	for name, tensor := range header {
		if !strings.HasPrefix(name, "emb_l.") {
			continue
		}
		data := b[8+n:][tensor.Offsets[0]:tensor.Offsets[1]]
		for size := len(data) / tensor.Shape[0]; len(data) > 0; data = data[size:] {
			rows = append(rows, data[:size])
		}
	}
	return rows
}

// With job.secure = "off" rows cross between hosts in plain text, with "auto" they do not. The
// setting changes no bit of the result.
func TestRowsAreSealedBetweenHosts(t *testing.T) {
	h := newTwoHosts(t)
	port := fmt.Sprint(freePorts(1))
	dir := t.TempDir()
	// The learning rate is too small to change a row, so the model has the rows that crossed
	// the cable.
	sets := []string{"job.ranks=2", "train.iterations=10", "cache.mode=none", "optimizer.sparse.lr=1e-30", "optimizer.sparse.kind=sgd"}
	config := golden("dlrm-adagrad")
	alone := filepath.Join(dir, "alone")
	if r := run(t, ecrec(t), nil, train(config, alone, sets...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	want := readSummary(t, alone)
	for _, c := range []struct {
		secure string
		clear  bool
	}{{"off", true}, {"auto", false}, {"on", false}} {
		out := filepath.Join(dir, c.secure)
		crossed := h.capture(t, func() { h.train(t, train(config, out, append(sets, "job.secure="+c.secure)...), port) })
		if t.Failed() {
			return
		}
		equal(t, c.secure, readSummary(t, out), want)
		seen := 0
		for _, row := range embeddingRows(t, filepath.Join(out, "model.safetensors")) {
			if bytes.Contains(crossed, row) {
				seen++
			}
		}
		t.Logf("job.secure = %q: %d bytes crossed, and %d rows in clear", c.secure, len(crossed), seen)
		if (seen > 0) != c.clear {
			t.Errorf("job.secure = %q: %d rows cross in clear", c.secure, seen)
		}
		if kind := []byte(`"kind":"world"`); bytes.Contains(crossed, kind) {
			t.Errorf("job.secure = %q: supervisors talk in clear", c.secure)
		}
	}
}
