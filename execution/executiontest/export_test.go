package executiontest

import "testing"

// RunCase runs one case of the kit, named as its subtest is.
func RunCase(tb testing.TB, h Harness, name string) {
	tb.Helper()
	for _, s := range subjects() {
		for _, c := range s.cases {
			if s.name+"/"+c.name != name {
				continue
			}
			if why, skipped := runCase(tb, h, c); skipped {
				tb.Fatalf("the case %s was skipped: %s", name, why)
			}
			return
		}
	}
	tb.Fatalf("there is no case %s", name)
}
