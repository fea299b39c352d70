package train

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// Exchange brings rows to a step and returns their gradients. lrpp.Exchange and lrpp.Cache
// implement it.
type Exchange interface {
	Expect(after *lrpp.Step)
	Begin(st, next *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error)
	End(st *lrpp.Step, rule kernels.RowRule, cells kernels.Matrix) error
	Settle() error
	Peek(st *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error)
	Moved(st *lrpp.Step) lrpp.Moved
	DelayedTook() time.Duration
}
