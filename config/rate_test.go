package config

import "testing"

func TestRates(t *testing.T) {
	for in, want := range map[string]Rate{"0": RateAuto, `"auto"`: RateAuto, `"max"`: RateMax, "1048576": 1 << 20, `"64MiB"`: 64 << 20, `"1GB"`: 1e9, `"0"`: RateAuto} {
		c := Default()
		if err := decodeStrict([]byte("[ec]\nrebuild_rate = "+in+"\n"), c); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if c.EC.RebuildRate != want {
			t.Errorf("%s is read as %d, want %d", in, c.EC.RebuildRate, want)
		}
		text, _ := c.EC.RebuildRate.MarshalTOML()
		back := Default()
		if err := decodeStrict([]byte("[ec]\nrebuild_rate = "+string(text)+"\n"), back); err != nil || back.EC.RebuildRate != want {
			t.Errorf("%s is written as %s, which reads as %d, %v", in, text, back.EC.RebuildRate, err)
		}
	}
	for _, in := range []string{"-1", `"-1"`, `"fast"`, `""`, "1.5", "true", `"64MiB/s"`} {
		if err := decodeStrict([]byte("[ec]\nrebuild_rate = "+in+"\n"), Default()); err == nil {
			t.Errorf("%s is read as a rate", in)
		}
	}
}
