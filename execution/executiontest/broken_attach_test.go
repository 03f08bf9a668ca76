package executiontest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-dev/pinfold/execution/executiontest"
	"github.com/pinfold-dev/pinfold/execution/fake"
	"github.com/pinfold-dev/pinfold/execution/internal/fakekit"
)

// Every case about attaching passes where all is right, and notices what it is
// there to notice.
func TestBrokenAttachers(t *testing.T) {
	cases := []string{
		"declared_as_it_is", "sandboxes_are_listed", "unknown", "by_id_start_of_id_and_name", "destroyed",
		"held_by_another_host", "one_of_two_at_once", "take_over", "shared", "detached_and_gone_on_with",
		"events_once_over_an_attach",
	}
	for _, name := range cases {
		t.Run("sound/"+name, func(t *testing.T) {
			if said := inTown(t, func(*town) {}, name); said != "" {
				t.Errorf("the kit found fault with a sound backend: %s", said)
			}
		})
	}
	for fault, row := range map[string]struct {
		make  func(*town)
		cases []string
	}{
		"undeclared":              {func(t *town) { t.undeclared = true }, []string{"declared_as_it_is"}},
		"others are not listed":   {func(t *town) { t.hides = true }, []string{"sandboxes_are_listed"}},
		"all are mine":            {func(t *town) { t.claims = true }, []string{"sandboxes_are_listed"}},
		"no near ones":            {func(t *town) { t.knowsNoNear = true }, []string{"unknown"}},
		"whole IDs only":          {func(t *town) { t.wantsAll = true }, []string{"by_id_start_of_id_and_name"}},
		"the dead are listed":     {func(t *town) { t.keepsDead = true }, []string{"destroyed"}},
		"everybody gets it":       {func(t *town) { t.careless = true }, []string{"held_by_another_host", "one_of_two_at_once", "take_over"}},
		"the first is not told":   {func(t *town) { t.lenient = true }, []string{"take_over"}},
		"the first destroys":      {func(t *town) { t.vengeful = true }, []string{"take_over"}},
		"no sharing":              {func(t *town) { t.unsociable = true }, []string{"shared"}},
		"tasks end with a host":   {func(t *town) { t.forgetsTasks = true }, []string{"detached_and_gone_on_with"}},
		"files end with a host":   {func(t *town) { t.forgetsFiles = true }, []string{"detached_and_gone_on_with"}},
		"commands outlive a host": {func(t *town) { t.keepsRunning = true }, []string{"take_over", "detached_and_gone_on_with"}},
		"events are dropped":      {func(t *town) { t.forgetsEvents = true }, []string{"events_once_over_an_attach"}},
	} {
		for _, name := range row.cases {
			t.Run(fault+"/"+name, func(t *testing.T) {
				if said := inTown(t, row.make, name); said == "" {
					t.Error("the kit found no fault")
				}
			})
		}
	}
}

// inTown runs one case about attaching and tells what the kit complained about.
func inTown(t *testing.T, fault func(*town), name string) (said string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &town{}
		fault(w)
		rec := &recorder{TB: t}
		executiontest.RunCase(rec, fakekit.Harness(fake.Options{}, w.wrap), "attach/"+name)
		said = strings.Join(rec.said, "\n")
		for _, b := range w.boxes {
			_ = b.inner.Destroy(t.Context()) // whatever a fault has left
		}
	})
	return said
}
