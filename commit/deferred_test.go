package commit

import (
	"testing"

	"github.com/ecrec/ecrec/ec"
)

// TestDeferredDeltas: with ParityOptions.Deferred the deltas of a sealed set are sent at Start, or at Wait.
func TestDeferredDeltas(t *testing.T) {
	c := newCluster(t, ec.XOR, 3, 2, 1, 2, 1)
	c.join()
	defer c.leave()
	for i, starts := range []bool{true, false} {
		step := int64(2 * (i + 1))
		c.each(t, func(m *member) error {
			if err := m.update(); err != nil {
				return err
			}
			m.at[step] = m.allRows(t)
			if err := m.c.Seal(step); err != nil {
				return err
			}
			if m.p.background.busy || m.p.Prepared() != step-2 {
				t.Errorf("the seal of step %d began to send deltas", step)
			}
			return nil
		})
		c.each(t, func(m *member) error {
			if starts {
				m.p.Start()
				if !m.p.background.busy {
					t.Error("nothing was started")
				}
			}
			err := m.p.Wait()
			if m.p.Prepared() != step {
				t.Errorf("prepared for step %d, want %d", m.p.Prepared(), step)
			}
			return err
		})
		c.each(t, func(m *member) error {
			_, err := m.c.Decide([]int64{step, step, step})
			return err
		})
	}
	c.checkParities(t)
}
