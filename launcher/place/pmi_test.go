package place

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestPMIRefuses(t *testing.T) {
	for name, c := range map[string]struct{ answer, says string }{
		"nobody":     {"", "EOF"},
		"an error":   {"cmd=response_to_init rc=-1\n", "init"},
		"other text": {"hello\n", `"hello"`},
		"silence":    {"wait", "not all processes joined"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				bufio.NewReader(theirs).ReadString('\n')
				if c.answer != "wait" {
					io.WriteString(theirs, c.answer)
					theirs.Close()
				}
			}()
			_, err := sharePMI(ours, "", 200*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}
