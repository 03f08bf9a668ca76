package cli

import "testing"

func TestGroupFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"123\n": 123, "max\n": -1, "": -1, "9223372036854771712\n": -1, "-1\n": -1, "12x": -1,
	} {
		got := int64(-1)
		if n := groupNumber(text); n != nil {
			got = *n
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	const stat = "usage_usec 77\nuser_usec 5\ninactive_file 9\n"
	if n := groupField(stat, "inactive_file"); n == nil || *n != 9 {
		t.Error("the field is not found")
	}
	if n := groupField(stat, "file"); n != nil {
		t.Errorf("a field that is not there is %d", *n)
	}
}
