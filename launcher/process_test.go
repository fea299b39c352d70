package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
)

// The tests of processes_*_test.go run the test binary as a program: local launcher, supervisors
// and a small worker. The worker connects to the others, and then does the work of TEST_DO.

func TestMain(m *testing.M) {
	if os.Getenv("TEST_JOB") != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

func program() int {
	if os.Getenv("TEST_PARENT") != "" { // in place of mpirun
		os.Unsetenv("TEST_PARENT")
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		if err := cmd.Run(); err != nil {
			panic(err)
		}
		return 0
	}
	w, err := Worker(prepared)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return control.ExitBad
	}
	if w != nil {
		return work(w)
	}
	if os.Getenv(place.EnvControl) != "" && there("broken") { // a machine on which no supervisor starts
		return 7
	}
	np, _ := strconv.Atoi(os.Getenv("TEST_NP"))
	ranks, _ := strconv.Atoi(os.Getenv("TEST_RANKS"))
	at, err := place.Detect(os.Getenv, np, os.Getenv("TEST_RDZV"))
	if err == nil {
		lim := limits{Limits: control.Limits{Meet: 20 * time.Second, Reform: 10 * time.Second, End: 2 * time.Second},
			handshake: 5 * time.Second, notice: time.Hour, revive: time.Hour, idle: 50 * time.Millisecond}
		if d, err := time.ParseDuration(os.Getenv("TEST_MEET")); err == nil {
			lim.Meet = d
		}
		if d, err := time.ParseDuration(os.Getenv("TEST_HANDSHAKE")); err == nil {
			lim.handshake = d
		}
		if d, err := time.ParseDuration(os.Getenv("TEST_NOTICE")); err == nil {
			lim.notice = d
		}
		if d, err := time.ParseDuration(os.Getenv("TEST_REVIVE")); err == nil {
			lim.revive = d
		}
		spec := Spec{Ranks: ranks, Out: os.Getenv("TEST_OUT"), Args: os.Args[1:], Same: os.Getenv("TEST_SAME"),
			Stdout: os.Stdout, Stderr: os.Stderr}
		if text := os.Getenv("TEST_ELASTIC"); text != "" {
			spec.Elastic, spec.Heartbeat, spec.Standby = true, testHeartbeat, true
			if spec.Keep, err = os.CreateTemp(os.Getenv("TEST_OUT"), "kept-"); err != nil {
				panic(err)
			}
			if _, err := fmt.Sscan(text, &spec.MaxRestarts, &spec.Spares); err != nil {
				panic(err)
			}
			if at.Launch {
				at.Processes += spec.Spares
			}
			spec.Prepare = prepareSlowly
		}
		var code int
		if code, err = runJob(at, spec, lim); err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "ecrec:", err)
	if errors.Is(err, place.ErrPlace) {
		return control.ExitBad
	}
	return control.ExitFailed
}

// seen is the content of a worker's file worker-P.json.
type seen struct {
	Generation     uint64
	Processes      []control.Process
	Secret         string // its digest
	PID, PPID, PGR int
	Left           []string // variables that should be unset
	Fresh          bool
	Kept           string    // the workers that inherited the kept file
	Told           time.Time // when the worker received the world
	Committed      bool      // it has reported a commit
}

// work is the worker: it connects to all others, writes worker-P.json, and does the work of
// TEST_DO.
func work(w *World) int {
	out := os.Getenv("TEST_OUT")
	log, err := os.Create(filepath.Join(out, fmt.Sprintf("process-%d.log", w.Process)))
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(log, "worker %d has begun\n", w.Process)
	log.Close()
	if slices.Contains(w.Processes[w.Process].Ranks, 0) {
		fmt.Printf("worker %d prints\n", w.Process)
	}
	if os.Getenv("TEST_ELASTIC") != "" {
		if _, err := syscall.Write(KeptFile, fmt.Appendf(nil, "%d ", os.Getpid())); err != nil {
			panic(err)
		}
		return workOn(w)
	}
	peers, err := mesh(w)
	if err != nil {
		panic(err)
	}
	record(w, time.Now(), false)
	what, who, _ := strings.Cut(os.Getenv("TEST_DO"), ":")
	if who == "" || who == strconv.Itoa(w.Process) {
		switch what {
		case "done":
			return 0
		case "error":
			w.Report(control.Report{Code: 1, Error: "the disk is full\nand that is that"})
			return 1
		case "bad":
			w.Report(control.Report{Code: 2, Error: "data.csv:3: no number"})
			return 2
		case "panic":
			panic("a bug")
		case "exit":
			return 3
		case "parent": // it starts a process and leaves it behind
			if err := exec.Command("sleep", "1000").Start(); err != nil {
				panic(err)
			}
			fallthrough
		case "deaf":
			time.Sleep(time.Hour)
		}
	}
	for stop := false; !stop; {
		select {
		case <-peers.lost:
			w.Report(control.Report{Code: 1, Error: "a peer is lost", IsConsequence: true})
			return 1
		case <-peers.stopped:
			stop = true
		case <-time.After(2 * time.Millisecond):
			stop = w.StopRequested()
		}
	}
	for _, c := range peers.conns { // all stop at the same step
		_, _ = c.Write([]byte{1})
	}
	w.Report(control.Report{Code: 143, Error: "stopped by a signal", Stopped: true})
	return 143
}

// record writes worker-P.json.
func record(w *World, told time.Time, committed bool) {
	sum := sha256.Sum256(w.Secret)
	s := seen{Generation: w.Generation, Processes: w.Processes, Secret: hex.EncodeToString(sum[:]), PID: os.Getpid(),
		PPID: os.Getppid(), PGR: syscall.Getpgrp(), Fresh: w.Fresh, Told: told, Committed: committed}
	for _, name := range []string{place.EnvProcess, place.EnvProcesses, place.EnvRdzv, place.EnvSecret, place.EnvControl, envWorker, envLifeline} {
		if os.Getenv(name) != "" {
			s.Left = append(s.Left, name)
		}
	}
	if os.Getenv("TEST_ELASTIC") != "" {
		kept := make([]byte, 1000)
		n, _ := syscall.Pread(KeptFile, kept, 0)
		s.Kept = string(kept[:n])
	}
	text, _ := json.Marshal(s)
	path := filepath.Join(os.Getenv("TEST_OUT"), fmt.Sprintf("worker-%d.json", w.Process))
	if os.WriteFile(path+"~", text, 0o644) != nil || os.Rename(path+"~", path) != nil {
		panic("cannot write " + path)
	}
}

// peers are a worker's connections to all others. When the first of them reports that it
// stops, or disconnects without a report, one of the channels gets a value.
type peers struct {
	conns         []net.Conn
	stopped, lost chan struct{}
}

// mesh connects the workers with each other.
func mesh(w *World) (*peers, error) {
	p := &peers{stopped: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	var once sync.Once
	watch := func(c net.Conn) {
		p.conns = append(p.conns, c)
		go func() {
			n, _ := c.Read(make([]byte, 1))
			once.Do(func() {
				if n == 1 {
					p.stopped <- struct{}{}
				} else {
					p.lost <- struct{}{}
				}
			})
		}()
	}
	higher := 0
	for q, o := range w.Processes {
		switch {
		case len(o.Ranks) == 0 || q == w.Process:
		case q > w.Process:
			higher++
		default:
			c, err := net.Dial("tcp", o.Addr)
			if err != nil {
				return p, err
			}
			watch(c)
		}
	}
	for range higher {
		c, err := w.Listener.Accept()
		if err != nil {
			return p, err
		}
		watch(c)
	}
	return p, nil
}
