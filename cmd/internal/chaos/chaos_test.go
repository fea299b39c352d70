package chaos

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	points := []string{"step", "commit"}
	for spec, want := range map[string]Fault{
		"kill:2@120":        {Kill, 2, 120, "step", 0},
		"kill:0@1:commit":   {Kill, 0, 1, "commit", 0},
		"node:3@7":          {Node, 3, 7, "step", 0},
		"stop:1@99:1.5s":    {Stop, 1, 99, "step", 1500 * time.Millisecond},
		"kill:1@9000000000": {Kill, 1, 9000000000, "step", 0},
	} {
		if got, err := Parse(spec, 4, points); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", spec, got, err, want)
		}
	}
	for spec, says := range map[string]string{
		"": "want kill:", "kill": "want kill:", "kill:1": "want kill:", "burn:1@2": "want kill:", "kill 1@2": "want kill:",
		"kill:4@2": `rank "4" is not one of 0 to 3`, "kill:-1@2": "rank", "kill:x@2": "rank", "kill:@2": "rank",
		"kill:1@0": `step "0"`, "kill:1@x": "step", "kill:1@": "step",
		"kill:1@2:nowhere": `unknown point "nowhere"; --chaos list lists them`, "kill:1@2:": "unknown point", "kill:1@2:step:3": "unknown point",
		"node:1@2:step": "want kill:", "stop:1@2": "not a duration", "stop:1@2:3": "not a duration", "stop:1@2:-1s": "not a duration",
	} {
		_, err := Parse(spec, 4, points)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "--chaos "+spec+": ") {
			t.Errorf("%s: %v, want %q", spec, err, says)
		}
	}
}
