package control

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

var rewrite = flag.Bool("rewrite", false, "write the actions of the state machines into testdata")

// TestMachines runs the stories of testdata. Lines that begin with > are events. The indented
// lines below an event are the actions that must follow. Other lines are prose. A number =N at
// an event's end is its generation or incarnation, if that is not the newest.
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
			got := runStory(t, string(text))
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("the actions differ (-rewrite shows them in place):\n%s", got)
			}
		})
	}
}

// runStory returns the story with the actions that follow from its events.
func runStory(t *testing.T, story string) string {
	var out strings.Builder
	var j *Job
	var m *Supervisor
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
		lim := Limits{Meet: time.Minute, Reform: 10 * time.Second, End: 5 * time.Second, Doubt: time.Second}
		words := strings.Fields(event)
		switch words[0] {
		case "job":
			j, m = NewJob(shapeOf(t, words[1:]), lim), nil
			continue
		case "member":
			m = NewSupervisor(number(t, words[1]), lim, "h:1")
			continue
		}
		var actions []Action
		if m != nil {
			actions = supervisorEvent(t, m, words)
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
func shapeOf(t *testing.T, words []string) Shape {
	s := Shape{Processes: number(t, words[0]), Ranks: number(t, words[1])}
	for w := words[2:]; len(w) > 0; w = w[min(2, len(w)):] {
		switch w[0] {
		case "launched":
			s.Launched = true
		case "faults":
			s.Faults = strings.Split(w[1], ",")
		case "elastic":
			s.Elastic, s.MaxRestarts = true, number(t, w[1])
		case "spares":
			s.Spares = number(t, w[1])
		default:
			t.Fatalf("no shape %q", w[0])
		}
	}
	return s
}

// of is the number =N at the end of an event, newest without one.
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

// ends are the outcomes of workers in the stories, by name.
var ends = map[string]Outcome{
	"done":    {},
	"stopped": {Code: 143, Report: &Report{Code: 143, Error: "stopped by a signal; all is saved", Stopped: true}},
	"error":   {Code: 1, Report: &Report{Code: 1, Error: "the loss is NaN"}},
	"bad":     {Code: 2, Report: &Report{Code: 2, Error: "run.toml:3: unknown key"}},
	"follows": {Code: 1, Report: &Report{Code: 1, Error: "rank 1 is lost", IsConsequence: true}},
	"killed":  {Signal: 9, Log: "out/process-1.log", Tail: []string{"step 7", "step 8"}},
	"culled":  {Signal: 9, Culled: true},
	"panic":   {Code: 2, Why: "crashed: panic: index out of range", Log: "out/process-1.log", Tail: []string{"goroutine 1"}},
	"silent":  {Code: 3},
}

func jobEvent(t *testing.T, j *Job, words []string) []Action {
	generation := uint64(of(t, words, int(j.Generation)))
	incarnation := func() int {
		if p := j.processOf(number(t, words[1])); p != None {
			return j.Slots[p].Incarnation
		}
		return 0
	}
	switch words[0] {
	case "start":
		return j.Step(Event{Kind: EventStart, By: j.Leader})
	case "join":
		n := number(t, words[1])
		k := Member{Number: n, Host: words[2], Endpoint: fmt.Sprintf("d:%d", n), ID: fmt.Sprintf("id%d", n)}
		if len(words) > 3 { // the name of its node
			k.Node = words[3]
		}
		return j.addMember(k)
	case "returns": // a process number, and an id
		n := number(t, words[1])
		return j.addMember(Member{Number: n, Place: n, Host: "r", Endpoint: "d:" + words[2], ID: words[2]})
	case "resume":
		return j.Resume()
	case "leader": // of the events that follow
		j.Leader = number(t, words[1])
		return nil
	case "listening":
		m := Message{Kind: KindListening, Addr: words[2], Generation: generation}
		if pid, found := strings.CutPrefix(words[len(words)-1], "pid"); found {
			m.PID = number(t, pid)
		}
		return j.receive(number(t, words[1]), m)
	case "ended":
		o, ok := ends[words[2]]
		if !ok {
			t.Fatalf("no end %q", words[2])
		}
		return j.receive(number(t, words[1]), Message{Kind: KindExited, Outcome: &o, Incarnation: of(t, words, incarnation())})
	case "done":
		return j.receive(number(t, words[1]), Message{Kind: KindDone, Generation: generation})
	case "committed":
		return j.receive(number(t, words[1]), Message{Kind: KindCommitted, Generation: generation,
			FullyRedundant: slices.Contains(words, "whole")})
	case "misses": // its worker cannot reach another
		return j.receive(number(t, words[1]), Message{Kind: KindUnreachable, Process: number(t, words[2]), Generation: generation})
	case "fire":
		return j.receive(number(t, words[1]), Message{Kind: KindFire, Fault: &Fault{Number: number(t, words[2]), Do: FaultKill},
			Incarnation: incarnation()})
	case "lost":
		return j.loseSupervisor(number(t, words[1]), isGone)
	case "stop":
		return j.receive(number(t, words[1]), Message{Kind: KindStop, Signal: 15})
	case "kill":
		return j.receive(number(t, words[1]), Message{Kind: KindKill, Signal: 2})
	case "nonsense":
		return j.receive(number(t, words[1]), Message{Kind: KindForm})
	case "expire":
		return j.expireTimer(strings.Join(words[1:], " "))
	}
	t.Fatalf("no event %q", words[0])
	return nil
}

func supervisorEvent(t *testing.T, s *Supervisor, words []string) []Action {
	receive := func(m Message) []Action { return s.Step(Event{Kind: EventReceive, Message: &m}) }
	worker := func(m Message) []Action { return s.Step(Event{Kind: EventWorker, Message: &m}) }
	switch words[0] {
	case "led":
		return s.Step(Event{Kind: EventLed})
	case "form": // an incarnation, for a generation
		if len(words) == 1 {
			words = []string{"form", "1", "1"}
		}
		return receive(Message{Kind: KindForm, Process: 1, Incarnation: number(t, words[1]), Generation: uint64(number(t, words[2]))})
	case "world":
		return receive(Message{Kind: KindWorld, Membership: &Membership{Generation: uint64(of(t, words, int(s.generation)))}})
	case "leave":
		return receive(Message{Kind: KindLeave})
	case "fired":
		f := &Fault{Number: 3, Do: FaultKind(words[1]), For: time.Second}
		return receive(Message{Kind: KindFired, Fault: f, Granted: words[2] == "granted", Incarnation: of(t, words, s.incarnation)})
	case "stop":
		return receive(Message{Kind: KindStop, Signal: 15})
	case "kill":
		return receive(Message{Kind: KindKill, Signal: 15})
	case "abort":
		return receive(Message{Kind: KindAbort})
	case "end":
		return receive(Message{Kind: KindEnd, Code: number(t, words[1])})
	case "listening":
		return worker(Message{Kind: KindListening, Addr: words[1], Generation: s.generation})
	case "says": // a message that is passed on
		return worker(Message{Kind: Kind(words[1]), Generation: s.generation})
	case "fire":
		return worker(Message{Kind: KindFire, Fault: &Fault{Number: 3, Do: FaultKill}})
	case "silent":
		return s.Step(Event{Kind: EventWorkerSilent})
	case "report":
		return worker(Message{Kind: KindReport, Report: &Report{Code: 1, Error: strings.Join(words[1:], " ")}})
	case "gone":
		o, ok := ends[words[1]]
		if !ok {
			t.Fatalf("no end %q", words[1])
		}
		o.Report, o.Culled = nil, false
		return s.Step(Event{Kind: EventWorkerExited, Outcome: &o})
	case "signal":
		return s.Step(Event{Kind: EventSignal, Signal: 2})
	case "asked":
		return s.Step(Event{Kind: EventStop, Signal: 15})
	case "insisted":
		return s.Step(Event{Kind: EventKill, Signal: 15})
	case "lost":
		return s.Step(Event{Kind: EventLeaderless, Text: "process 0 is lost: its supervisor is gone"})
	case "expire":
		return s.Step(Event{Kind: EventExpire})
	}
	t.Fatalf("no event %q", words[0])
	return nil
}

// In any order of events a job ends once, with one line at most, and a supervisor leaves once,
// without a worker.
func TestMachinesEndOnce(t *testing.T) {
	jobEvents := []string{"join %d h", "listening %d a:1", "ended %d done", "ended %d error", "ended %d follows",
		"ended %d killed", "lost %d", "stop %d", "kill %d", "expire"}
	memberEvents := []string{"led", "form", "world", "stop", "kill", "abort", "end 0", "listening a:1", "report x",
		"gone done", "gone killed", "signal", "asked", "insisted", "lost", "expire"}
	for seed := range uint64(2000) {
		x := seed*0x9e3779b97f4a7c15 + 1
		next := func(n int) int {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			return int(x % uint64(n))
		}
		j, said, over := NewJob(Shape{Processes: 3, Ranks: 5}, Limits{Meet: 1, End: 1}), 0, 0
		joined := map[int]bool{}
		for range 40 {
			event := jobEvents[next(len(jobEvents))]
			process := next(3)
			if strings.Contains(event, "%d") {
				event = fmt.Sprintf(event, process)
			}
			if strings.HasPrefix(event, "join") {
				if joined[process] {
					continue // the rendezvous accepts a process once
				}
				joined[process] = true
			}
			for _, a := range jobEvent(t, j, strings.Fields(event)) {
				switch {
				case a.Do == DoPrint:
					said++
				case a.Do == DoBroadcast && (a.Message.Kind == KindEnd || a.Message.Kind == KindKill):
					over++
				}
			}
		}
		if said > 1 || over > 1 || (over == 1) != (j.Phase == phaseOver) {
			t.Fatalf("seed %d: %d lines, %d ends, phase %d", seed, said, over, j.Phase)
		}

		m, left, worker, formed := NewSupervisor(1, Limits{End: 1}, ""), 0, false, false
		for range 40 {
			event := memberEvents[next(len(memberEvents))]
			if event == "form" {
				if formed || !m.joined {
					continue // once in a generation, to a supervisor that has joined
				}
				formed = true
			}
			if strings.HasPrefix(event, "gone") {
				if !worker {
					continue // there is none
				}
				worker = false
			}
			for _, a := range supervisorEvent(t, m, strings.Fields(event)) {
				switch a.Do {
				case DoStart:
					worker = true
				case DoKill:
					worker = false
				case DoLeave:
					left++
				case DoSendJob:
					if !m.joined {
						t.Fatalf("seed %d: %s before the job receives messages", seed, a)
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
