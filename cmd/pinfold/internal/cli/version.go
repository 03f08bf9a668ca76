package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/internal/guest/guestbin"
)

// buildVersion is set by `make build`.
var buildVersion string

// A versionReport is what `pinfold version --json` prints.
type versionReport struct {
	Version  string            `json:"version"`            // of the module, or "devel"
	Revision string            `json:"revision,omitempty"` // of the source
	Modified bool              `json:"modified,omitempty"` // the source had uncommitted changes
	Guests   map[string]string `json:"guests"`             // sha256 by architecture; "" is not built in
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	API      string            `json:"engine_api"` // what it needs of an engine
}

func newVersionReport() versionReport {
	report := versionReport{
		Version: cmp.Or(buildVersion, "devel"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Guests: map[string]string{}, API: ">= 1.40",
	}
	for _, arch := range guestbin.Architectures() {
		guest, err := guestbin.Binary(arch)
		if err != nil {
			guest.Digest = ""
		}
		report.Guests[arch] = guest.Digest
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return report
	}
	if v := info.Main.Version; buildVersion == "" && v != "" && v != "(devel)" {
		report.Version = v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			report.Revision = setting.Value
		case "vcs.modified":
			report.Modified = setting.Value == "true"
		}
	}
	return report
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell which pinfold this is",
		Args:  positional(cobra.NoArgs, "version takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			report := newVersionReport()
			if asJSON {
				return writeJSON(a.stdout, report)
			}
			return a.printVersion(report)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) printVersion(report versionReport) error {
	source := report.Version
	if report.Revision != "" {
		source += " (" + report.Revision
		if report.Modified {
			source += ", modified"
		}
		source += ")"
	}
	if _, err := fmt.Fprintf(a.stdout, "pinfold %s\n%s %s\nengine API %s\n",
		source, report.Go, report.Platform, report.API); err != nil {
		return err
	}
	for _, arch := range guestbin.Architectures() {
		digest := report.Guests[arch]
		if digest == "" {
			digest = "not built in"
		}
		if _, err := fmt.Fprintf(a.stdout, "guest %s %s\n", arch, digest); err != nil {
			return err
		}
	}
	return nil
}
