package execution_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-dev/pinfold/execution"
)

// modelCapture is what a Capture of that limit keeps of everything at once.
func modelCapture(all []byte, limit int) (kept []byte, dropped int64) {
	if len(all) <= limit {
		return all, 0
	}
	head := limit - limit/2
	kept = append(kept, all[:head]...)
	kept = append(kept, all[len(all)-limit/2:]...)
	return kept, int64(len(all) - limit)
}

func TestCapture(t *testing.T) {
	for name, row := range map[string]struct {
		limit   int
		writes  []string
		kept    string
		dropped int64
	}{
		"nothing":                    {4, nil, "", 0},
		"empty writes":               {4, []string{"", ""}, "", 0},
		"less than the limit":        {4, []string{"ab"}, "ab", 0},
		"exactly the limit":          {4, []string{"ab", "cd"}, "abcd", 0},
		"one more":                   {4, []string{"abcd", "e"}, "abde", 1},
		"one write over the limit":   {4, []string{"abcdefgh"}, "abgh", 4},
		"a byte at a time":           {4, strings.Split("abcdefgh", ""), "abgh", 4},
		"the tail wraps around":      {6, []string{"abc", "defg", "h", "ijkl"}, "abcjkl", 6},
		"an odd limit favours start": {5, []string{"abcdefgh"}, "abcgh", 3},
		"a limit of one":             {1, []string{"ab", "c", "d"}, "a", 3},
		"a large write after many":   {4, []string{"a", "b", "c", "d", "e", "0123456789"}, "ab89", 11},
	} {
		t.Run(name, func(t *testing.T) {
			c := execution.Capture{Limit: row.limit}
			for _, w := range row.writes {
				if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
			}
			if kept, dropped := c.Take(); string(kept) != row.kept || dropped != row.dropped {
				t.Errorf("kept %q and dropped %d, want %q and %d", kept, dropped, row.kept, row.dropped)
			}
		})
	}
}

func TestCaptureZeroValueKeepsCaptureLimit(t *testing.T) {
	var c execution.Capture
	_, _ = c.Write(make([]byte, execution.CaptureLimit+7))
	if kept, dropped := c.Take(); len(kept) != execution.CaptureLimit || dropped != 7 {
		t.Errorf("kept %d and dropped %d bytes", len(kept), dropped)
	}
}

func TestCaptureTakeIsACopy(t *testing.T) {
	c := execution.Capture{Limit: 4}
	_, _ = c.Write([]byte("abcd"))
	first, _ := c.Take()
	first[0] = 'x'
	_, _ = c.Write([]byte("ef"))
	if kept, _ := c.Take(); string(kept) != "abef" {
		t.Errorf("kept %q, want abef", kept)
	}
}

func TestCaptureByMany(t *testing.T) {
	c := execution.Capture{Limit: 64}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				_, _ = c.Write([]byte("xyz"))
				c.Take()
			}
		})
	}
	group.Wait()
	if kept, dropped := c.Take(); int64(len(kept))+dropped != 8*100*3 {
		t.Errorf("kept %d and dropped %d bytes, want 2400 together", len(kept), dropped)
	}
}

// FuzzCapture holds a Capture against the model, whatever the sizes of the
// writes are.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("some output"), uint8(4), []byte{1, 2, 3})
	f.Add(bytes.Repeat([]byte("0123456789"), 30), uint8(7), []byte{0, 9, 1})
	f.Add([]byte("x"), uint8(1), []byte{1})
	f.Fuzz(func(t *testing.T, all []byte, limit uint8, sizes []byte) {
		if limit == 0 {
			return
		}
		c := execution.Capture{Limit: int(limit)}
		rest := all
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if i < len(sizes) {
				n = min(n, int(sizes[i]))
			}
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		kept, dropped := c.Take()
		wantKept, wantDropped := modelCapture(all, int(limit))
		if !bytes.Equal(kept, wantKept) || dropped != wantDropped {
			t.Errorf("kept %q and dropped %d of %q, want %q and %d", kept, dropped, all, wantKept, wantDropped)
		}
	})
}
