package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/launcher/control"
)

// A process that was cut off and is lost to the others, unlike one that knows all losses, does not record the end of the job.
func TestEndOfProcessThatIsLost(t *testing.T) {
	const past = `{"time":"2026-11-27T10:00:00.000Z","event":"start","job":"a1"}
{"time":"2026-11-27T10:00:01.000Z","event":"loss","process":0,"seq":3}
`
	for _, x := range []struct {
		name    string
		process int
		end     control.Closing
		want    event.Name
	}{
		{"cut off", 0, control.Closing{Code: 1, Why: "too few are left"}, event.Loss},
		{"another process", 1, control.Closing{Code: 1, Why: "too few are left"}, event.Failed},
		{"it knows", 0, control.Closing{Code: 1, Why: "the end", Incidents: []control.Incident{{Seq: 3}}}, event.Failed},
		{"success", 0, control.Closing{}, event.End},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := &config.Config{}
			cfg.Job.Out, x.end.ID = t.TempDir(), "a1"
			path := filepath.Join(cfg.Job.Out, event.File)
			if err := os.WriteFile(path, []byte(past), 0o644); err != nil {
				t.Fatal(err)
			}
			conclude(cfg, x.process, x.end)
			all, err := event.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := all[len(all)-1].Event; got != x.want {
				t.Errorf("the last event is %s, want %s", got, x.want)
			}
		})
	}
}
