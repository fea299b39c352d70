package place

import (
	"errors"
	"fmt"
)

// Place is the number of this process, and where it meets the others.
type Place struct {
	Process, Processes int
	From               string // the source of the numbers, for messages
	// Launch is true if no environment gives a place: this process starts Processes
	// supervisors.
	Launch bool
	// Started is true if a launcher that keeps running, such as mpirun, started this process. The job ends if the launcher does.
	Started bool
	// OneHost is true if all processes are certainly on one machine.
	OneHost    bool
	Rendezvous Rendezvous
	// Given is the address that the user gave, if Rendezvous has a name derived from it.
	Given string
	// Fallback is the rendezvous if another user holds the socket of Rendezvous; empty: none.
	Fallback Rendezvous
}

// Rendezvous is where the processes of a job meet.
type Rendezvous struct {
	// Network is "tcp"; "unix": a socket in Linux's abstract name space, whose peers the
	// kernel authenticates; "pmi": the launcher's key-value space holds the address; "file":
	// a file holds it, and the secret too; or "shared": such a file in the job's folder,
	// named after a key.
	Network string
	Address string // host:port, a name, the number of a file descriptor, a path, or a key
}

// ErrPlace marks an error in how a process was started: nothing has been done.
var ErrPlace = errors.New("the process's place in the job is not clear")

type placeError string

func (e placeError) Error() string        { return string(e) }
func (e placeError) Is(target error) bool { return target == ErrPlace }

// Errorf makes an error that is ErrPlace.
func Errorf(format string, args ...any) error {
	return placeError(fmt.Sprintf(format, args...))
}

// IsAlone reports whether the job is this one process.
func (p Place) IsAlone() bool { return p.Processes == 1 }

// IsLaunched reports whether ecrec's own launcher started this process.
func (p Place) IsLaunched() bool { return p.From == fromLauncher }

// Where is a name of the rendezvous for messages: the address as the user gave it, if the name of a socket was
// derived from that.
func (p Place) Where() string {
	switch {
	case p.Rendezvous.Network == "pmi":
		return "the launcher's PMI"
	case p.Rendezvous.Network != "unix":
		return p.Rendezvous.Address
	case p.Given != "":
		return p.Given + " (on one machine: the local socket " + p.Rendezvous.Socket() + ")"
	}
	return p.Rendezvous.Socket()
}
