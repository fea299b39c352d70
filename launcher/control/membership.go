package control

// MaxProcesses bounds a job; its membership fits in one message.
const MaxProcesses = 4096

// Membership is the set of processes of a generation, as it is sent to the workers.
type Membership struct {
	JobID      string    `json:"job_id,omitempty"`
	Generation uint64    `json:"generation"`
	Processes  []Process `json:"processes"`
	Fired      []int     `json:"fired,omitempty"`  // the numbers of the faults that have fired
	Secret     []byte    `json:"secret,omitempty"` // of the transport; set by a supervisor for its worker
	// LostAt is when the loss happened that caused this generation, in nanoseconds of Unix
	// time: the grant of a fault, or the report of the loss to the job. 0: no loss.
	LostAt  int64 `json:"lost_at,omitempty"`
	Trained bool  `json:"trained,omitempty"` // an earlier generation has committed
	Doubts  int   `json:"doubts,omitempty"`  // preceding generations that ended because a process was unreachable
	Spares  int   `json:"spares,omitempty"`  // idle spares
	// Incidents are the newest incidents of the job.
	Incidents []Incident `json:"incidents,omitempty"`
}

// Process is one process of a Membership. Its number is its index in the list.
type Process struct {
	// Ranks are the ranks that it hosts, ascending; empty if they were reassigned to
	// other processes.
	Ranks []int `json:"ranks"`
	// Since is the generation in which each rank moved to this worker. A peer of earlier
	// generations must expect the rank without its state.
	Since []uint64 `json:"since"`
	Addr  string   `json:"addr"`           // the address of its worker
	Host  string   `json:"host"`           // equal for processes that can share memory
	Node  string   `json:"node,omitempty"` // the machine's name, for messages
	PID   int      `json:"pid,omitempty"`  // of its worker
	// Incarnation counts its workers, from 1.
	Incarnation int `json:"incarnation"`
}

// Member is a supervisor or the launcher: a participant of the control plane, which may
// become a voter.
type Member struct {
	Number   int    `json:"number"`
	Place    int    `json:"place,omitempty"`    // the process number that it was started with
	Host     string `json:"host,omitempty"`     // equal on one machine; "": it has not joined
	Node     string `json:"node,omitempty"`     // the machine's name, for messages
	Endpoint string `json:"endpoint,omitempty"` // its address for other members
	ID       string `json:"id,omitempty"`       // drawn by its process: a restarted process has another
	Lost     bool   `json:"lost,omitempty"`
}
