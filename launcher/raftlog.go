package launcher

import (
	"io"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/printable"
)

// raftLogger writes the warnings and errors of the consensus library to a log, as lines of
// zerolog. The library's other messages are of no use to people.
func raftLogger(w io.Writer, member int) hclog.Logger {
	var usual hclog.ExcludeByMessage
	// A new voter lacks the earlier log, each time.
	usual.Add("failed to get previous log")
	usual.Add("appendEntries rejected, sending older logs")
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, DisableTime: true, Exclude: usual.Exclude,
		Output: raftLines{zerolog.New(w).With().Timestamp().Int("supervisor", member).Logger()}})
}

// raftLines converts lines such as "[WARN]  message".
type raftLines struct{ log zerolog.Logger }

func (l raftLines) Write(p []byte) (int, error) {
	level, text, _ := strings.Cut(printable.JoinLines(string(p)), "]")
	line := l.log.Warn()
	if strings.HasSuffix(level, "ERROR") {
		line = l.log.Error()
	}
	line.Msg("raft: " + strings.TrimSpace(text))
	return len(p), nil
}
