package virtual_test

import (
	"errors"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
)

// The error of the function is reported also if it leaves a task that waits for ever.
func TestErrorBesideADeadlock(t *testing.T) {
	why := errors.New("the cause")
	err := virtual.Run(1, func(e env.Env) error {
		e.Go("left", func() { _ = env.NewEvent(e, "never set").Wait() })
		return why
	})
	if deadlock := new(virtual.Deadlock); !errors.Is(err, why) || !errors.As(err, &deadlock) {
		t.Errorf("the error is %v", err)
	}
	if err := virtual.Run(1, func(env.Env) error { return why }); err == nil || err.Error() != why.Error() {
		t.Errorf("without a deadlock the error is %v", err)
	}
}
