package doctor

import (
	"context"
	"time"
)

// Status is what a check came to.
type Status string

const (
	OK     Status = "ok"
	Warn   Status = "warn"   // works, but slower than it could, or not for every job
	Fail   Status = "fail"   // jobs will fail here, or the machine has less than is expected
	Absent Status = "absent" // not there; only what uses it needs it
)

// Check is one finding.
type Check struct {
	Part   string `json:"part"` // of the report
	Name   string `json:"name"`
	Status Status `json:"status"`
	Value  string `json:"value"`  // what was found
	Detail string `json:"detail"` // what is wrong, where, and what to do

	amount float64 // what Expectations compare: cores, bytes or GPUs
}

// question is one thing to ask of the machine. The answer is one Check, which gets
// the question's name, or several.
type question struct {
	part, name string
	asks       string // who may leave it without an answer
	ask        func(context.Context) []Check
}

// Limit is how long the machine has for all questions, asked beside each other.
const Limit = 10 * time.Second

// answers asks all questions and waits for no answer longer than limit. What asks
// a question that gets none is left behind, until the process ends.
func answers(questions []question, limit time.Duration) (all []Check) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pending := make([]chan []Check, len(questions))
	for i, q := range questions {
		answer := make(chan []Check, 1)
		pending[i] = answer
		go func() {
			if found := q.ask(ctx); ctx.Err() == nil { // else it was cut off, and proves nothing
				answer <- found
			}
		}()
	}
	for i, q := range questions {
		var found []Check
		select {
		case found = <-pending[i]:
		case <-ctx.Done():
			select {
			case found = <-pending[i]: // while another one was waited for
			default:
				found = []Check{{Status: Fail, Value: "no answer", Detail: q.asks + " did not answer within " + limit.String()}}
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
