package executiontest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-dev/pinfold/execution"
	"github.com/pinfold-dev/pinfold/execution/fake"
)

// paths makes hooks out of a change to every path.
func (w *world) paths(change func(string) string) {
	w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
		return h.OpenFile(ctx, change(path), opts)
	}
	w.write = func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
		return h.WriteFile(ctx, change(path), r, opts)
	}
	w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
		return h.Stat(ctx, change(path))
	}
	w.lstat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
		return h.Lstat(ctx, change(path))
	}
	w.list = func(ctx context.Context, h execution.Handle, dir string) iter.Seq2[execution.FileInfo, error] {
		return h.List(ctx, change(dir))
	}
	w.glob = func(ctx context.Context, h execution.Handle, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
		return h.Glob(ctx, change(dir), pattern)
	}
}

// writes makes a write hook.
func writes(change func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error) func(*world) {
	return func(w *world) { w.write = change }
}

// errors makes hooks out of a change to the errors of file calls.
func (w *world) errors(change func(error) error) {
	w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
		r, err := h.OpenFile(ctx, path, opts)
		return r, change(err)
	}
	w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
		info, err := h.Stat(ctx, path)
		return info, change(err)
	}
}

func fileFaults() []fault {
	paths := func(change func(string) string) func(*world) {
		return func(w *world) { w.paths(change) }
	}
	return []fault{
		{
			name: "paths trimmed", cases: []string{"paths/hostile_names", "paths/hostile_directories"},
			make: paths(func(p string) string { return strings.TrimSpace(p) }),
		},
		{
			name: "paths made valid UTF-8", cases: []string{"paths/hostile_names", "paths/hostile_directories"},
			make: paths(func(p string) string { return strings.ToValidUTF8(p, "?") }),
		},
		{
			name: "paths quoted for a shell", cases: []string{"paths/hostile_names"},
			make: paths(func(p string) string { return strings.ReplaceAll(p, "'", `'\''`) }),
		},
		{
			name: "paths cut at a NUL", cases: []string{"paths/nul"},
			make: paths(func(p string) string { before, _, _ := strings.Cut(p, "\x00"); return before }),
		},
		{
			name: "relative to the root", cases: []string{"paths/relative_and_absolute", "files/commands_see_the_same", "cwdenv/default_directory"},
			make: paths(func(p string) string {
				if path.IsAbs(p) {
					return p
				}
				return "/" + p
			}),
		},
		{
			name: "files apart from those of commands", cases: []string{"files/commands_see_the_same", "limits/tmpfs_mount"},
			make: paths(func(p string) string { return "/tmp/" + strconv.Quote(p) }),
		},
		{
			name: "line ends translated", cases: []string{"files/roundtrip", "files/roundtrip_64mib"},
			make: func(w *world) {
				w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
					r, err := h.OpenFile(ctx, path, opts)
					if err != nil {
						return nil, err
					}
					data, err := io.ReadAll(r)
					return io.NopCloser(bytes.NewReader(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")))), err
				}
			},
		},
		{
			name: "content of 100 KiB at most", cases: []string{"files/roundtrip", "files/commands_see_the_same"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				return h.WriteFile(ctx, path, io.LimitReader(r, 100<<10), opts)
			}),
		},
		{
			name: "offset ignored", cases: []string{"files/offset_and_length"},
			make: func(w *world) {
				w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
					opts.Offset = min(opts.Offset, 0)
					return h.OpenFile(ctx, path, opts)
				}
			},
		},
		{
			name: "a file that is closed goes on, or complains", cases: []string{"files/close_early"},
			make: func(w *world) {
				w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
					r, err := h.OpenFile(ctx, path, opts)
					return io.NopCloser(r), err
				}
			},
		},
		{
			name: "length ignored", cases: []string{"files/offset_and_length"},
			make: func(w *world) {
				w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
					opts.Length = min(opts.Length, 0)
					return h.OpenFile(ctx, path, opts)
				}
			},
		},
		{
			name:  "a write that is not atomic",
			cases: []string{"files/write_is_atomic", "files/write_fails_when_its_reader_fails", "files/write_ends_with_its_context"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				if err := h.WriteFile(ctx, path, strings.NewReader(""), opts); err != nil {
					return err
				}
				return h.WriteFile(ctx, path, r, opts)
			}),
		},
		{
			name: "half a file when the reader fails", cases: []string{"files/write_fails_when_its_reader_fails"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				data, rerr := io.ReadAll(r)
				err := h.WriteFile(ctx, path, bytes.NewReader(data), opts)
				return errors.Join(rerr, err)
			}),
		},
		{
			name: "a reader's error is taken for its end", cases: []string{"files/write_fails_when_its_reader_fails"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				data, _ := io.ReadAll(r)
				return h.WriteFile(ctx, path, bytes.NewReader(data), opts)
			}),
		},
		{
			name: "a temporary file left", cases: []string{"files/write_fails_when_its_reader_fails", "files/write_ends_with_its_context"},
			make: writes(func(ctx context.Context, h execution.Handle, file string, r io.Reader, opts execution.WriteOptions) error {
				err := h.WriteFile(ctx, file, r, opts)
				if err != nil {
					_ = h.WriteFile(context.WithoutCancel(ctx), path.Dir(file)+"/.tmp123", strings.NewReader("x"), opts)
				}
				return err
			}),
		},
		{
			name: "mode of a replaced file lost", cases: []string{"files/mode_is_kept"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				err := h.WriteFile(ctx, path, r, opts)
				_ = h.(*fake.Handle).Chmod(path, cmp.Or(opts.Mode, 0o644))
				return err
			}),
		},
		{
			name: "umask applied", cases: []string{"files/mode_of_a_new_file"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				opts.Mode = cmp.Or(opts.Mode, 0o644) &^ 0o022
				return h.WriteFile(ctx, path, r, opts)
			}),
		},
		{
			name: "files of another owner", cases: []string{"files/belongs_to_the_user"},
			make: func(w *world) {
				w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
					info, err := h.Stat(ctx, path)
					info.UID = 0
					return info, err
				}
			},
		},
		{
			name: "parents not made", cases: []string{"files/parents_are_made", "paths/hostile_directories"},
			make: writes(func(ctx context.Context, h execution.Handle, file string, r io.Reader, opts execution.WriteOptions) error {
				if _, err := h.Stat(ctx, path.Dir(file)); err != nil {
					return err
				}
				return h.WriteFile(ctx, file, r, opts)
			}),
		},
		{
			name: "links not followed by a write", cases: []string{"files/symbolic_link_is_followed"},
			make: writes(func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
				if info, err := h.Lstat(ctx, path); err == nil && info.Target != "" {
					_, err := io.Copy(io.Discard, r)
					return err
				}
				return h.WriteFile(ctx, path, r, opts)
			}),
		},
		{
			name: "wrong sentinel for a missing file", cases: []string{"files/not_found"}, told: "does not match",
			make: func(w *world) {
				w.errors(func(err error) error {
					if errors.Is(err, execution.ErrNotFound) {
						return &execution.Error{Op: "stat", Err: execution.ErrInvalid}
					}
					return err
				})
			},
		},
		{
			name: "errors without their type", cases: []string{"files/not_found", "files/directory", "paths/nul"}, told: "*execution.Error",
			make: func(w *world) {
				w.errors(func(err error) error {
					if typed := (*execution.Error)(nil); errors.As(err, &typed) {
						return typed.Err
					}
					return err
				})
			},
		},
		{
			name: "errors that say the same twice", cases: []string{"files/not_found", "files/directory"}, told: "twice",
			make: func(w *world) {
				w.errors(func(err error) error {
					if typed := (*execution.Error)(nil); errors.As(err, &typed) {
						return &execution.Error{Op: typed.Op, Path: typed.Path, Err: fmt.Errorf("%w: %w", typed.Err, typed.Err)}
					}
					return err
				})
			},
		},
		{
			name: "a FIFO reads as empty", cases: []string{"files/special_files"},
			make: func(w *world) {
				w.open = func(ctx context.Context, h execution.Handle, path string, opts execution.ReadOptions) (io.ReadCloser, error) {
					if info, err := h.Stat(ctx, path); err == nil && info.Mode.Type() == fs.ModeNamedPipe {
						return io.NopCloser(strings.NewReader("")), nil
					}
					return h.OpenFile(ctx, path, opts)
				}
			},
		},
		{
			name: "one slow transfer blocks all", cases: []string{"concurrency/slow_file_blocks_nobody"}, told: "hangs",
			make: func(w *world) {
				turn := make(chan struct{}, 1)
				w.write = func(ctx context.Context, h execution.Handle, path string, r io.Reader, opts execution.WriteOptions) error {
					select {
					case turn <- struct{}{}:
					case <-ctx.Done():
						return ctx.Err()
					}
					defer func() { <-turn }()
					return h.WriteFile(ctx, path, r, opts)
				}
			},
		},
	}
}

// infos makes a list or glob hook out of a change to what it yields.
func infos(seq iter.Seq2[execution.FileInfo, error], change func([]execution.FileInfo) []execution.FileInfo) iter.Seq2[execution.FileInfo, error] {
	return func(yield func(execution.FileInfo, error) bool) {
		var all []execution.FileInfo
		for info, err := range seq {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		for _, info := range change(all) {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func treeFaults() []fault {
	list := func(change func([]execution.FileInfo) []execution.FileInfo) func(*world) {
		return func(w *world) {
			w.list = func(ctx context.Context, h execution.Handle, dir string) iter.Seq2[execution.FileInfo, error] {
				return infos(h.List(ctx, dir), change)
			}
		}
	}
	glob := func(change func([]execution.FileInfo) []execution.FileInfo) func(*world) {
		return func(w *world) {
			w.glob = func(ctx context.Context, h execution.Handle, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
				return infos(h.Glob(ctx, dir, pattern), change)
			}
		}
	}
	hidden := func(i execution.FileInfo) bool { return strings.HasPrefix(path.Base(i.Name), ".") }
	return []fault{
		{
			name: "list out of order", cases: []string{"tree/list", "tree/list_many", "paths/hostile_names_in_lists"},
			make: list(func(all []execution.FileInfo) []execution.FileInfo { slices.Reverse(all); return all }),
		},
		{
			name: "list without hidden names", cases: []string{"tree/list"},
			make: list(func(all []execution.FileInfo) []execution.FileInfo { return slices.DeleteFunc(all, hidden) }),
		},
		{
			name: "list cut at 100", cases: []string{"tree/list_many"},
			make: list(func(all []execution.FileInfo) []execution.FileInfo { return all[:min(100, len(all))] }),
		},
		{
			name: "a list's links without their target", cases: []string{"tree/list"},
			make: list(func(all []execution.FileInfo) []execution.FileInfo {
				for i := range all {
					all[i].Target = ""
				}
				return all
			}),
		},
		{
			name: "an error ends a list in silence", cases: []string{"tree/list_of_a_file", "files/not_found", "paths/nul"},
			make: func(w *world) {
				w.list = func(ctx context.Context, h execution.Handle, dir string) iter.Seq2[execution.FileInfo, error] {
					return func(yield func(execution.FileInfo, error) bool) {
						for info, err := range h.List(ctx, dir) {
							if err != nil || !yield(info, nil) {
								return
							}
						}
					}
				}
			},
		},
		{
			name: "glob in the order of a walk", cases: []string{"tree/glob"},
			make: glob(func(all []execution.FileInfo) []execution.FileInfo {
				slices.SortFunc(all, func(a, b execution.FileInfo) int {
					return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
				})
				return all
			}),
		},
		{
			name: "glob without hidden names", cases: []string{"tree/glob"},
			make: glob(func(all []execution.FileInfo) []execution.FileInfo { return slices.DeleteFunc(all, hidden) }),
		},
		{
			name: "glob tells base names", cases: []string{"tree/glob"},
			make: glob(func(all []execution.FileInfo) []execution.FileInfo {
				for i := range all {
					all[i].Name = path.Base(all[i].Name)
				}
				return all
			}),
		},
		{
			name: "glob follows links", cases: []string{"tree/glob_does_not_follow_links"},
			make: glob(func(all []execution.FileInfo) []execution.FileInfo {
				for _, info := range slices.Clone(all) {
					if info.Target != "" {
						all = append(all, execution.FileInfo{Name: info.Name + "/file"})
					}
				}
				return all
			}),
		},
		{
			name: "a pattern may lead anywhere and stand for anything", cases: []string{"tree/glob_invalid"},
			make: func(w *world) {
				w.glob = func(ctx context.Context, h execution.Handle, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
					if strings.ContainsAny(pattern, "/{") && !strings.HasPrefix(pattern, "a{") {
						pattern = "*"
					}
					return h.Glob(ctx, dir, pattern)
				}
			},
		},
		{
			name: "a file of a far time cannot be described", cases: []string{"files/any_time"},
			make: func(w *world) {
				w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
					info, err := h.Stat(ctx, path)
					if err == nil && info.ModTime.Year() > 9000 {
						err = execution.ErrLost
					}
					return info, err
				}
			},
		},
		{
			name: "a bad pattern matches nothing", cases: []string{"tree/glob_invalid"},
			make: func(w *world) {
				w.glob = func(ctx context.Context, h execution.Handle, dir, pattern string) iter.Seq2[execution.FileInfo, error] {
					return func(yield func(execution.FileInfo, error) bool) {
						for info, err := range h.Glob(ctx, dir, pattern) {
							if errors.Is(err, execution.ErrInvalid) || !yield(info, err) {
								return
							}
						}
					}
				}
			},
		},
		{
			name: "lstat follows links", cases: []string{"tree/stat_and_lstat_of_links", "files/symbolic_link_is_followed"},
			make: func(w *world) {
				w.lstat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
					return h.Stat(ctx, path)
				}
			},
		},
		{
			name: "stat follows no links", cases: []string{"tree/stat_and_lstat_of_links", "files/special_files"},
			make: func(w *world) {
				w.stat = func(ctx context.Context, h execution.Handle, path string) (execution.FileInfo, error) {
					return h.Lstat(ctx, path)
				}
			},
		},
	}
}
