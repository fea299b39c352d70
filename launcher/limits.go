package launcher

import (
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/launcher/control"
)

// limits bound the waits of a job's processes.
type limits struct {
	control.Limits
	handshake time.Duration // of a peer at a rendezvous or an endpoint
	notice    time.Duration // until a message names the process that the rendezvous waits for
	revive    time.Duration // until the local launcher replaces a lost supervisor
	idle      time.Duration // until a supervisor without a worker prepares for one: others have one by then
}

func defaultLimits() limits {
	return limits{Limits: control.Limits{Meet: time.Minute, Reform: 10 * time.Second, End: 5 * time.Second},
		handshake: 5 * time.Second, notice: 5 * time.Second, revive: 10 * time.Second, idle: 5 * time.Second}
}

const (
	// silentBeats is the number of missed heartbeats after which a process is lost.
	silentBeats = heartbeat.Missed
	// doubtBeats is how long the job collects reports of unreachable processes, in
	// heartbeats.
	doubtBeats = 4
	// leaderlessBeats is how long a job may be without a leader if too few voters are left,
	// in heartbeats: twice the time that others need to find it silent and to elect another.
	leaderlessBeats = 3 * silentBeats
	// electionTimes is the number of such periods that a majority has to elect a leader.
	electionTimes = 4
	// leaveLimit is how long a process that ends waits for others to end.
	leaveLimit = 2 * time.Second
)
