package execution_test

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// A validateRow is something with a verdict: "" where it is fine, else a word
// that the error must hold.
type validateRow struct {
	name string
	err  error
	word string
}

func judge(t *testing.T, rows []validateRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			switch {
			case row.word == "" && row.err != nil:
				t.Errorf("got %v, want no error", row.err)
			case row.word == "":
			case !errors.Is(row.err, execution.ErrInvalid):
				t.Errorf("got %v, want an error that matches ErrInvalid", row.err)
			case !strings.Contains(row.err.Error(), row.word):
				t.Errorf("the error %q does not name %q", row.err, row.word)
			case strings.ContainsAny(row.err.Error(), "\x00\n\x1b"):
				t.Errorf("the error %q holds bytes that do not belong into one", row.err)
			}
		})
	}
}

func TestCommandValidate(t *testing.T) {
	type command = execution.Command
	args := []string{"true"}
	size := &execution.TerminalSize{Rows: 24, Cols: 80}
	var sink execution.Capture
	rows := []validateRow{}
	for name, row := range map[string]struct {
		cmd  command
		word string
	}{
		"args":                       {command{Args: args}, ""},
		"shell":                      {command{Shell: "true"}, ""},
		"empty arguments":            {command{Args: []string{"true", "", ""}}, ""},
		"any bytes":                  {command{Args: []string{"\xff", "\n", "-rf"}, Dir: "\xff\n", Env: []string{"A=\xff\n=", "B="}}, ""},
		"everything":                 {command{Args: args, Timeout: time.Hour, OutputLimit: 1, Grace: -1, TTY: size, Stdout: &sink}, ""},
		"longest timeout":            {command{Args: args, Timeout: 10 * 365 * 24 * time.Hour}, ""},
		"most negative grace":        {command{Args: args, Grace: math.MinInt64}, ""},
		"nothing":                    {command{}, "empty"},
		"both":                       {command{Args: args, Shell: "true"}, "both"},
		"empty program":              {command{Args: []string{""}}, "program"},
		"negative timeout":           {command{Args: args, Timeout: -1}, "timeout"},
		"absurd timeout":             {command{Args: args, Timeout: math.MaxInt64}, "timeout"},
		"negative output limit":      {command{Args: args, OutputLimit: -1}, "output limit"},
		"absurd grace":               {command{Args: args, Grace: math.MaxInt64}, "grace"},
		"stderr on a terminal":       {command{Args: args, TTY: size, Stderr: &sink}, "Stderr"},
		"NUL in the program":         {command{Args: []string{"a\x00"}}, "argument"},
		"NUL in an argument":         {command{Args: []string{"a", "b", "\x00"}}, "argument"},
		"NUL in the shell line":      {command{Shell: "\x00"}, "shell line"},
		"NUL in the directory":       {command{Args: args, Dir: "\x00"}, "directory"},
		"NUL in a variable":          {command{Args: args, Env: []string{"A=\x00"}}, `"A"`},
		"NUL in a variable's name":   {command{Args: args, Env: []string{"A\x00=x"}}, "environment"},
		"variable without a name":    {command{Args: args, Env: []string{"=x"}}, "environment"},
		"variable without an equals": {command{Args: args, Env: []string{"A"}}, `"A"`},
		"empty variable":             {command{Args: args, Env: []string{""}}, "environment"},
	} {
		rows = append(rows, validateRow{name, row.cmd.Validate(), row.word})
	}
	judge(t, rows)
}

func TestValidateKeepsSecrets(t *testing.T) {
	secret := "hunter2" + strings.Repeat("x", 100)
	for _, env := range [][]string{{"TOKEN=" + secret + "\x00"}, {"=" + secret}} {
		err := execution.Command{Shell: "true", Env: env}.Validate()
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error %v tells a value", err)
		}
	}
}

func TestSpecValidate(t *testing.T) {
	type spec = execution.Spec
	rows := []validateRow{}
	for name, row := range map[string]struct {
		spec spec
		word string
	}{
		"zero value": {spec{}, ""},
		"everything": {spec{
			Image: "debian:12", Platform: "linux/arm64", Pull: execution.PullAlways, Name: "box", Dir: "/src", Env: []string{"A=b"},
			User: "1:1", ReadOnly: true, Network: "none", Runtime: "runsc", Profile: execution.ProfileDev,
			Relax: []execution.Relaxation{execution.RelaxSeccomp}, Labels: map[string]string{"a": ""},
		}, ""},
		"relative directory":   {spec{Dir: "src"}, "directory"},
		"NUL in the directory": {spec{Dir: "/\x00"}, "directory"},
		"NUL in the image":     {spec{Image: "\x00"}, "image"},
		"NUL in the platform":  {spec{Platform: "\x00"}, "platform"},
		"NUL in the name":      {spec{Name: "\x00"}, "name"},
		"NUL in the user":      {spec{User: "\x00"}, "user"},
		"NUL in the network":   {spec{Network: "\x00"}, "network"},
		"NUL in the runtime":   {spec{Runtime: "\x00"}, "runtime"},
		"unknown pull policy":  {spec{Pull: "often"}, "pull policy"},
		"unknown profile":      {spec{Profile: "root"}, "profile"},
		"unknown relaxation":   {spec{Relax: []execution.Relaxation{"all"}}, "relaxation"},
		"reserved label":       {spec{Labels: map[string]string{execution.LabelPrefix + "owner": "me"}}, "label"},
		"label without a name": {spec{Labels: map[string]string{"": "x"}}, "label"},
		"bad variable":         {spec{Env: []string{"A"}}, "environment"},
		"limited and relaxed": {spec{
			Limits: execution.Limits{Memory: 1 << 30}, Relax: []execution.Relaxation{execution.RelaxMemory},
		}, "memory"},
		"pids limited and relaxed": {spec{
			Limits: execution.Limits{PIDs: 100}, Relax: []execution.Relaxation{execution.RelaxPIDs},
		}, "pids"},
		"cpus limited and relaxed": {spec{
			Limits: execution.Limits{CPUs: 1}, Relax: []execution.Relaxation{execution.RelaxCPUs},
		}, "cpus"},
		"one limited, another relaxed": {spec{
			Limits: execution.Limits{CPUs: 1}, Relax: []execution.Relaxation{execution.RelaxMemory},
		}, ""},
	} {
		rows = append(rows, validateRow{name, row.spec.Validate(), row.word})
	}
	judge(t, rows)
}

func TestMountValidate(t *testing.T) {
	type mount = execution.Mount
	rows := []validateRow{}
	for name, row := range map[string]struct {
		mount mount
		word  string
	}{
		"tmpfs":                   {mount{Type: execution.MountTmpfs, Target: "/tmp"}, ""},
		"tmpfs with all":          {mount{Type: execution.MountTmpfs, Target: "/tmp", Size: 1 << 20, Mode: 0o700, ReadOnly: true}, ""},
		"bind":                    {mount{Type: execution.MountBind, Target: "/src", Source: "/home/me/src", ReadOnly: true}, ""},
		"any bytes":               {mount{Type: execution.MountBind, Target: "/\xff\n:", Source: "/,"}, ""},
		"no type":                 {mount{Target: "/tmp"}, "type"},
		"unknown type":            {mount{Type: "volume", Target: "/tmp"}, "type"},
		"no target":               {mount{Type: execution.MountTmpfs}, "target"},
		"relative target":         {mount{Type: execution.MountTmpfs, Target: "tmp"}, "target"},
		"the root":                {mount{Type: execution.MountTmpfs, Target: "/"}, "target"},
		"the root by a detour":    {mount{Type: execution.MountTmpfs, Target: "/a/..//."}, "target"},
		"NUL in the target":       {mount{Type: execution.MountTmpfs, Target: "/\x00"}, "NUL"},
		"NUL in the source":       {mount{Type: execution.MountBind, Target: "/src", Source: "/\x00"}, "NUL"},
		"negative size":           {mount{Type: execution.MountTmpfs, Target: "/tmp", Size: -1}, "size"},
		"absurd size":             {mount{Type: execution.MountTmpfs, Target: "/tmp", Size: math.MaxInt64}, "size"},
		"tmpfs with a source":     {mount{Type: execution.MountTmpfs, Target: "/tmp", Source: "/tmp"}, "source"},
		"bind without a source":   {mount{Type: execution.MountBind, Target: "/src"}, "source"},
		"bind with a size":        {mount{Type: execution.MountBind, Target: "/src", Source: "/src", Size: 1}, "size"},
		"mode with a type":        {mount{Type: execution.MountTmpfs, Target: "/x", Mode: fs.ModeDir | 0o700}, "permissions only"},
		"bind with a mode":        {mount{Type: execution.MountBind, Target: "/src", Source: "/src", Mode: 0o700}, "mode"},
		"terminal sequence":       {mount{Type: "\x1b[31m", Target: "/src"}, "type"},
		"terminal sequence again": {mount{Type: execution.MountBind, Target: "/\x1b[31m"}, "source"},
	} {
		spec := execution.Spec{Mounts: []mount{{Type: execution.MountTmpfs, Target: "/fine"}, row.mount}}
		rows = append(rows, validateRow{name, spec.Validate(), row.word})
	}
	judge(t, rows)
}

func TestLimitsValidate(t *testing.T) {
	type limits = execution.Limits
	rows := []validateRow{}
	for name, row := range map[string]struct {
		limits limits
		word   string
	}{
		"none":               {limits{}, ""},
		"all":                {limits{Memory: 1 << 30, CPUs: 1.5, PIDs: 512, Storage: 1 << 30}, ""},
		"least memory":       {limits{Memory: execution.MinMemory}, ""},
		"less memory":        {limits{Memory: execution.MinMemory - 1}, "memory"},
		"negative memory":    {limits{Memory: -1}, "memory"},
		"lowest memory":      {limits{Memory: math.MinInt64}, "memory"},
		"absurd memory":      {limits{Memory: math.MaxInt64}, "memory"},
		"least cpus":         {limits{CPUs: 0.01}, ""},
		"less cpus":          {limits{CPUs: 0.001}, "cpu"},
		"negative cpus":      {limits{CPUs: -1}, "cpu"},
		"absurd cpus":        {limits{CPUs: 1e9}, "cpu"},
		"infinite cpus":      {limits{CPUs: math.Inf(1)}, "cpu"},
		"minus infinity":     {limits{CPUs: math.Inf(-1)}, "cpu"},
		"not a number":       {limits{CPUs: math.NaN()}, "cpu"},
		"denormal cpus":      {limits{CPUs: math.SmallestNonzeroFloat64}, "cpu"},
		"negative zero cpus": {limits{CPUs: math.Copysign(0, -1)}, ""},
		"least pids":         {limits{PIDs: execution.MinPIDs}, ""},
		"fewer pids":         {limits{PIDs: execution.MinPIDs - 1}, "pid"},
		"negative pids":      {limits{PIDs: -1}, "pid"},
		"absurd pids":        {limits{PIDs: math.MaxInt64}, "pid"},
		"a byte of storage":  {limits{Storage: 1}, ""},
		"negative storage":   {limits{Storage: -1}, "storage"},
		"absurd storage":     {limits{Storage: math.MaxInt64}, "storage"},
	} {
		rows = append(rows, validateRow{name, execution.Spec{Limits: row.limits}.Validate(), row.word})
	}
	judge(t, rows)
}
