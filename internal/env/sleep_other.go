//go:build !linux

package env

import "time"

type alarms struct{}

func (*alarms) sleep(d time.Duration) { time.Sleep(d) }
