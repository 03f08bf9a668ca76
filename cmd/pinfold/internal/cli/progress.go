package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-dev/pinfold/images"
)

// progressEvery is how often a step that goes on is told of again.
const progressEvery = 2 * time.Second

// A progress tells of pulls and builds, one plain line at a time, when
// standard error is a terminal and --quiet is not given. Pulling tells of many
// layers a thousand times a second; only each step's start and, every now and
// then, how far it is are shown.
type progress struct {
	console *console

	mu     sync.Mutex
	step   string
	told   time.Time
	layers map[string]images.Event // of the step, by ID
}

func newProgress(c *console) *progress { return &progress{console: c} }

func (p *progress) event(e images.Event) {
	if !p.console.terminal || p.console.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Step != p.step {
		p.step, p.told, p.layers = e.Step, time.Now(), map[string]images.Event{}
		p.console.say("%s …", e.Step)
	}
	if len(p.layers) < maxLayers {
		p.layers[e.ID] = e
	}
	if e.ID == "" && e.Total == 0 {
		// A build's own lines come slowly and are worth reading.
		if e.Text != "" {
			p.console.print("  " + printable(e.Text))
		}
		return
	}
	if time.Since(p.told) < progressEvery {
		return
	}
	p.told = time.Now()
	var current, total int64
	for _, layer := range p.layers {
		current += layer.Current
		total += layer.Total
	}
	if total > 0 {
		p.console.print(fmt.Sprintf("  %s of %s", showSize(current), showSize(total)))
	}
}

// maxLayers bounds what an engine can make us remember. Images have at most
// 127 layers.
const maxLayers = 256
