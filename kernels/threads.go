package kernels

// Threads run work of the host in parts, which may run in any order and at the same time: work
// that is no operation of a Stream, such as that of a planner. They belong to one goroutine.
type Threads struct{ pool *pool }

// NewThreads returns a number of threads, at least one. The goroutine that calls Run is one of
// them.
func NewThreads(n int) *Threads { return &Threads{newPool(n)} }

// Count is the number of threads.
func (t *Threads) Count() int { return t.pool.threads }

// Run calls part for each i in [0, parts), and returns when all are done. worker is below Count;
// no two parts run with the same worker at once. A part must be finite, and must not wait for
// another one. Parts are begun in ascending order.
func (t *Threads) Run(parts int, part func(worker, i int)) { t.pool.runQueue(parts, partFunc(part)) }

// Close ends the threads.
func (t *Threads) Close() { t.pool.stopWorkers() }

// partFunc is a function as a task.
type partFunc func(worker, i int)

func (f partFunc) runPart(worker, i int) { f(worker, i) }
