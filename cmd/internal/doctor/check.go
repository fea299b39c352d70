package doctor

import (
	"context"
	"time"
)

// Status is the result of a check.
type Status string

const (
	OK     Status = "ok"
	Warn   Status = "warn"   // works, but slower than it could, or not for every job
	Fail   Status = "fail"   // jobs will fail here, or the machine is below the expectations
	Absent Status = "absent" // not found; only jobs that use it need it
)

// Check is one finding.
type Check struct {
	Part   string `json:"part"` // of the report
	Name   string `json:"name"`
	Status Status `json:"status"`
	Value  string `json:"value"`  // the finding
	Detail string `json:"detail"` // the problem, its place, and the remedy

	amount float64 // cores, bytes or GPUs, compared with Expectations
}

// question is one query of the machine. It results in one Check, which gets the question's name,
// or in several.
type question struct {
	part, name string
	source     string // the program or file that may not answer
	run        func(context.Context) []Check
}

// Limit is the time limit of all questions together, but for deviceQuestion. They run concurrently.
const Limit = 10 * time.Second

// deviceQuestion is the name of the question that the first use of a GPU answers: its kernels are compiled for the GPU,
// which takes some 20 s once for each version of ecrec. CompileLimit is its time limit.
const (
	deviceQuestion = "job.device"
	CompileLimit   = 2 * time.Minute
)

// runAll runs all questions concurrently and returns their checks after limit at the latest. The
// goroutine of a question without an answer by then is abandoned.
func runAll(questions []question, limit time.Duration) (all []Check) {
	pending, contexts := make([]chan []Check, len(questions)), make([]context.Context, len(questions))
	for i, q := range questions {
		own := limit
		if q.name == deviceQuestion {
			own = max(limit, CompileLimit)
		}
		ctx, cancel := context.WithTimeout(context.Background(), own)
		defer cancel()
		answer := make(chan []Check, 1)
		pending[i], contexts[i] = answer, ctx
		go func() {
			if found := q.run(ctx); ctx.Err() == nil { // else it was interrupted, and proves nothing
				answer <- found
			}
		}()
	}
	for i, q := range questions {
		var found []Check
		select {
		case found = <-pending[i]:
		case <-contexts[i].Done():
			select {
			case found = <-pending[i]: // it arrived during the wait for another question
			default:
				found = []Check{{Status: Fail, Value: "no answer", Detail: q.source + " did not answer within " + limit.String()}}
			}
		}
		for _, c := range found {
			c.Part = q.part
			if c.Name == "" {
				c.Name = q.name
			}
			all = append(all, c)
		}
	}
	return all
}
