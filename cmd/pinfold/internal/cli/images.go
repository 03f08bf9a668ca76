package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/images"
)

func (a *app) imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "The images that come with pinfold",
		Args:  a.subcommandOnly,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.imagesListCommand(), a.imagesBuildCommand())
	return cmd
}

// A listedImage is one of ours, and whether the engine has it.
type listedImage struct {
	Name        string     `json:"name"`
	Ref         string     `json:"ref"`
	Description string     `json:"description"`
	Default     bool       `json:"default"`
	Present     bool       `json:"present"`
	ID          string     `json:"id,omitempty"`
	Platform    string     `json:"platform,omitempty"`
	Size        int64      `json:"size_bytes,omitempty"`
	Created     *time.Time `json:"created,omitempty"`
}

func (a *app) imagesListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List pinfold's images, and which of them the engine has",
		Args:  positional(cobra.NoArgs, "list takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEngine(cmd.Context(), func(ctx context.Context, engine engine) error {
				list, err := listImages(ctx, engine.Images())
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, list)
				}
				return a.printImages(list)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func listImages(ctx context.Context, engine images.Engine) ([]listedImage, error) {
	var list []listedImage
	for i, recipe := range images.Known() {
		listed := listedImage{Name: recipe.Name, Ref: recipe.Ref, Description: recipe.Description, Default: i == 0}
		image, err := engine.ImageInspect(ctx, recipe.Ref)
		switch {
		case err == nil:
			listed.Present, listed.ID, listed.Platform = true, image.ID, image.Platform()
			listed.Size, listed.Created = image.Size, &image.Created
		case !errors.Is(err, execution.ErrNotFound):
			return nil, err
		}
		list = append(list, listed)
	}
	return list, nil
}

func (a *app) printImages(list []listedImage) error {
	var rows [][]string
	for _, image := range list {
		there, size := "no", ""
		if image.Present {
			there, size = "yes", showSize(image.Size)
		}
		rows = append(rows, []string{image.Name, image.Ref, there, size, image.Description})
	}
	return writeTable(a.stdout, []string{"NAME", "IMAGE", "PRESENT", "SIZE", "CONTENT"}, rows)
}

func (a *app) imagesBuildCommand() *cobra.Command {
	var opts images.BuildOptions
	cmd := &cobra.Command{
		Use:   "build NAME...",
		Short: "Build images of pinfold's",
		Long: `Build images of pinfold's on the engine: from their Dockerfiles, or with --offline
from Debian packages, which needs no registry, but root on Debian or Ubuntu and a
Debian mirror. 'pinfold run' builds a missing image by itself where it can.`,
		Args:      positional(cobra.MinimumNArgs(1), "no name; want "+orList(knownImages())),
		ValidArgs: knownImages(),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, ours := images.Lookup(name); !ours {
					return &usageError{
						cmd.CommandPath(),
						fmt.Errorf("%q is no image of pinfold's; want %s", name, orList(knownImages())),
					}
				}
			}
			return a.withEngine(cmd.Context(), func(ctx context.Context, engine engine) error {
				return a.buildImages(ctx, engine.Images(), args, opts)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.Offline, "offline", false, "make it from Debian packages")
	flags.BoolVar(&opts.NoCache, "no-cache", false, "make everything anew")
	flags.StringVar(&opts.Platform, "platform", "", "`os/arch` to build for (default: the engine's)")
	flags.StringVar(&opts.CacheDir, "cache-dir", "", "`folder` where --offline keeps what it made (default: the user's cache)")
	flags.BoolVarP(&a.stderr.quiet, "quiet", "q", false, "no progress")
	return cmd
}

// buildImages prints the name and the ID of each image that it has made.
func (a *app) buildImages(ctx context.Context, engine images.Engine, names []string, opts images.BuildOptions) error {
	opts.Progress = newProgress(a.stderr).event
	for _, name := range names {
		image, err := images.Build(ctx, engine, name, opts)
		if err != nil {
			return err
		}
		recipe, _ := images.Lookup(name)
		if _, err := fmt.Fprintf(a.stdout, "%s %s\n", recipe.Ref, printable(image.ID)); err != nil {
			return err
		}
	}
	return nil
}
