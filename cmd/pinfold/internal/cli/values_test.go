package cli

import (
	"strings"
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1048576": 1 << 20, "512m": 512 << 20, "512M": 512 << 20, "512MB": 512 << 20, "512MiB": 512 << 20,
		"2g": 2 << 30, "1.5g": 3 << 29, "64k": 64 << 10, "1t": 1 << 40, "100b": 100, "0": 0, "512 m": 512 << 20,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "-512m", "12q", "inf", "nan", "0x10", "1e9", "1_000", "512mm", "9999999999g", " ", "1 2m"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestSizesForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 512 << 20: "512 MiB", 3 << 29: "1.5 GiB"} {
		if got := showSize(n); got != want {
			t.Errorf("showSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "1h30m": 90 * time.Minute, "10": 10 * time.Second, "0.5": 500 * time.Millisecond, "0": 0,
	} {
		var got span
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("Set(%q) gives %v, %v; want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "-1s", "-5", "soon", "nan", "inf", "1e300"} {
		var got span
		if err := got.Set(text); err == nil {
			t.Errorf("Set(%q) gives %v, want an error", text, time.Duration(got))
		}
	}
}

func TestChoicesNameWhatIsAllowed(t *testing.T) {
	t.Parallel()
	c := choice{"docker", []string{"docker", "process"}}
	err := c.Set("podman")
	if err == nil || !strings.Contains(err.Error(), "docker or process") || c.value != "docker" {
		t.Errorf("Set = %v, value %q", err, c.value)
	}
}
