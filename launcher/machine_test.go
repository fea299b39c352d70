package launcher

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the state machines do into testdata")

// TestMachines runs the stories of testdata: lines that begin with > are events,
// the lines below an event are the actions that must follow, others are prose. A
// number =N at an event's end is the generation or incarnation that it speaks of,
// where that is not the newest.
func TestMachines(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(stories) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range stories {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(text))
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("the story goes otherwise (-rewrite shows it in place):\n%s", got)
			}
		})
	}
}

// tell is the story with the actions that do follow.
func tell(t *testing.T, story string) string {
	var out strings.Builder
	var j *job
	var m *member
	for line := range strings.Lines(story) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // an action
		}
		out.WriteString(line + "\n")
		event, is := strings.CutPrefix(line, "> ")
		if !is {
			continue
		}
		lim := limits{meet: time.Minute, reform: 10 * time.Second, end: 5 * time.Second, doubt: time.Second}
		words := strings.Fields(event)
		switch words[0] {
		case "job":
			j, m = newJob(shapeOf(t, words[1:]), lim), nil
			continue
		case "member":
			m = &member{supervisor: number(t, words[1]), limits: lim}
			continue
		}
		var actions []action
		if m != nil {
			actions = memberEvent(t, m, words)
		} else {
			actions = jobEvent(t, j, words)
		}
		for _, a := range actions {
			out.WriteString("    " + strings.ReplaceAll(a.String(), "\n", "\n    ") + "\n")
		}
	}
	return out.String()
}

// shapeOf reads "processes ranks", with "elastic N" for maxRestarts, "spares N", "faults A,B" and "launched".
func shapeOf(t *testing.T, words []string) shape {
	s := shape{processes: number(t, words[0]), ranks: number(t, words[1])}
	for w := words[2:]; len(w) > 0; w = w[min(2, len(w)):] {
		switch w[0] {
		case "launched":
			s.launched = true
		case "faults":
			s.faults = strings.Split(w[1], ",")
		case "elastic":
			s.elastic, s.maxRestarts = true, number(t, w[1])
		case "spares":
			s.spares = number(t, w[1])
		default:
			t.Fatalf("no shape %q", w[0])
		}
	}
	return s
}

// of is the number =N at the end of an event, or else what is meant without.
func of(t *testing.T, words []string, newest int) int {
	if n, is := strings.CutPrefix(words[len(words)-1], "="); is {
		return number(t, n)
	}
	return newest
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ends are the ways in which a worker of the stories ends.
var ends = map[string]outcome{
	"done":    {},
	"stopped": {Code: 143, Report: &Report{Code: 143, Error: "stopped by a signal; all is saved", Stopped: true}},
	"error":   {Code: 1, Report: &Report{Code: 1, Error: "the loss is NaN"}},
	"bad":     {Code: 2, Report: &Report{Code: 2, Error: "run.toml:3: unknown key"}},
	"follows": {Code: 1, Report: &Report{Code: 1, Error: "rank 1 is lost", Follows: true}},
	"killed":  {Signal: 9, Log: "out/process-1.log", Tail: []string{"step 7", "step 8"}},
	"culled":  {Signal: 9, Culled: true},
	"panic":   {Code: 2, Why: "crashed: panic: index out of range", Log: "out/process-1.log", Tail: []string{"goroutine 1"}},
	"silent":  {Code: 3},
}

func jobEvent(t *testing.T, j *job, words []string) []action {
	generation := uint64(of(t, words, int(j.Generation)))
	incarnation := func() int {
		if p := j.processOf(number(t, words[1])); p != nobody {
			return j.Seats[p].Incarnation
		}
		return 0
	}
	switch words[0] {
	case "start":
		return j.start()
	case "join":
		n := number(t, words[1])
		return j.join(keeper{Number: n, Host: words[2], Door: fmt.Sprintf("d:%d", n), ID: fmt.Sprintf("id%d", n)})
	case "returns": // started as a process, with an id
		n := number(t, words[1])
		return j.join(keeper{Number: n, Place: n, Host: "r", Door: "d:" + words[2], ID: words[2]})
	case "resume":
		return j.resume()
	case "leader": // of the events that follow
		j.Leader = number(t, words[1])
		return nil
	case "listening":
		return j.hear(number(t, words[1]), message{Kind: kindListening, Addr: words[2], Generation: generation})
	case "ended":
		o, ok := ends[words[2]]
		if !ok {
			t.Fatalf("no end %q", words[2])
		}
		return j.hear(number(t, words[1]), message{Kind: kindEnded, Outcome: &o, Incarnation: of(t, words, incarnation())})
	case "done":
		return j.hear(number(t, words[1]), message{Kind: kindDone, Generation: generation})
	case "committed":
		return j.hear(number(t, words[1]), message{Kind: kindCommitted, Generation: generation, Whole: slices.Contains(words, "whole")})
	case "misses": // its worker does not reach another
		return j.hear(number(t, words[1]), message{Kind: kindLost, Process: number(t, words[2]), Generation: generation})
	case "fire":
		return j.hear(number(t, words[1]), message{Kind: kindFire, Fault: &Fault{Number: number(t, words[2]), Do: FaultKill}, Incarnation: incarnation()})
	case "lost":
		return j.lose(number(t, words[1]), isGone)
	case "stop":
		return j.hear(number(t, words[1]), message{Kind: kindStop, Signal: 15})
	case "kill":
		return j.hear(number(t, words[1]), message{Kind: kindKill, Signal: 2})
	case "nonsense":
		return j.hear(number(t, words[1]), message{Kind: kindForm})
	case "expire":
		return j.expire(strings.Join(words[1:], " "))
	}
	t.Fatalf("no event %q", words[0])
	return nil
}

func memberEvent(t *testing.T, m *member, words []string) []action {
	switch words[0] {
	case "led":
		return m.lead()
	case "form": // an incarnation, for a generation
		if len(words) == 1 {
			words = []string{"form", "1", "1"}
		}
		return m.hear(message{Kind: kindForm, Process: 1, Incarnation: number(t, words[1]), Generation: uint64(number(t, words[2]))})
	case "world":
		return m.hear(message{Kind: kindWorld, World: &members{Generation: uint64(of(t, words, int(m.generation)))}})
	case "leave":
		return m.hear(message{Kind: kindLeave})
	case "fired":
		f := &Fault{Number: 3, Do: FaultKind(words[1]), For: time.Second}
		return m.hear(message{Kind: kindFired, Fault: f, Granted: words[2] == "granted", Incarnation: of(t, words, m.incarnation)})
	case "stop":
		return m.hear(message{Kind: kindStop, Signal: 15})
	case "kill":
		return m.hear(message{Kind: kindKill, Signal: 15})
	case "abort":
		return m.hear(message{Kind: kindAbort})
	case "end":
		return m.hear(message{Kind: kindEnd, Code: number(t, words[1])})
	case "listening":
		return m.hearWorker(message{Kind: kindListening, Addr: words[1], Generation: m.generation})
	case "says": // what is passed on
		return m.hearWorker(message{Kind: kind(words[1]), Generation: m.generation})
	case "fire":
		return m.hearWorker(message{Kind: kindFire, Fault: &Fault{Number: 3, Do: FaultKill}})
	case "silent":
		return m.workerSilent()
	case "report":
		return m.hearWorker(message{Kind: kindReport, Report: &Report{Code: 1, Error: strings.Join(words[1:], " ")}})
	case "gone":
		o, ok := ends[words[1]]
		if !ok {
			t.Fatalf("no end %q", words[1])
		}
		o.Report, o.Culled = nil, false
		return m.workerGone(o)
	case "signal":
		return m.signal(2)
	case "asked":
		return m.askStop(15)
	case "insisted":
		return m.askKill(15)
	case "lost":
		return m.loseJob("process 0 is lost: its supervisor is gone")
	case "expire":
		return m.expire()
	}
	t.Fatalf("no event %q", words[0])
	return nil
}

// Whatever happens in whatever order, a job ends once with one line at most, and a
// supervisor leaves once, without a worker.
func TestMachinesEndOnce(t *testing.T) {
	jobEvents := []string{"join %d h", "listening %d a:1", "ended %d done", "ended %d error", "ended %d follows", "ended %d killed", "lost %d", "stop %d", "kill %d", "expire"}
	memberEvents := []string{"led", "form", "world", "stop", "kill", "abort", "end 0", "listening a:1", "report x", "gone done", "gone killed", "signal", "asked", "insisted", "lost", "expire"}
	for seed := range uint64(2000) {
		x := seed*0x9e3779b97f4a7c15 + 1
		next := func(n int) int {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			return int(x % uint64(n))
		}
		j, said, over := newJob(shape{processes: 3, ranks: 5}, limits{meet: 1, end: 1}), 0, 0
		joined := map[int]bool{}
		for range 40 {
			event := jobEvents[next(len(jobEvents))]
			process := next(3)
			if strings.Contains(event, "%d") {
				event = fmt.Sprintf(event, process)
			}
			if strings.HasPrefix(event, "join") {
				if joined[process] {
					continue // the rendezvous lets a process in once
				}
				joined[process] = true
			}
			for _, a := range jobEvent(t, j, strings.Fields(event)) {
				switch {
				case a.Do == doSay:
					said++
				case a.Do == doTellAll && (a.Message.Kind == kindEnd || a.Message.Kind == kindKill):
					over++
				}
			}
		}
		if said > 1 || over > 1 || (over == 1) != (j.Phase == jobOver) {
			t.Fatalf("seed %d: %d lines, %d ends, phase %d", seed, said, over, j.Phase)
		}

		m, left, worker, formed := &member{supervisor: 1, limits: limits{end: 1}}, 0, false, false
		for range 40 {
			event := memberEvents[next(len(memberEvents))]
			if event == "form" {
				if formed || !m.met {
					continue // once in a generation, to a supervisor that has come
				}
				formed = true
			}
			if strings.HasPrefix(event, "gone") {
				if !worker {
					continue // there is none
				}
				worker = false
			}
			for _, a := range memberEvent(t, m, strings.Fields(event)) {
				switch a.Do {
				case doStart:
					worker = true
				case doKill:
					worker = false
				case doLeave:
					left++
				case doTellJob:
					if !m.met {
						t.Fatalf("seed %d: %s before the job hears", seed, a)
					}
				}
				if left > 0 && worker {
					t.Fatalf("seed %d: left a worker behind", seed)
				}
			}
		}
		if left > 1 {
			t.Fatalf("seed %d: left %d times", seed, left)
		}
	}
}
