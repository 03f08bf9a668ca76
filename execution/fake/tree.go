package fake

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// Bounds of Linux on paths.
const (
	maxPath  = 4095
	maxName  = 255
	maxLinks = 40
)

// A node is a file, directory, link or device.
type node struct {
	mode     fs.FileMode
	uid, gid uint32
	modTime  time.Time
	data     []byte // never changed, only replaced
	target   string // of a symbolic link
	children map[string]*node
	program  Program
}

// A volume is what files take their space from.
type volume struct {
	root     *node
	readOnly bool
	limit    int64 // in bytes; 0 means none
	used     int64
}

// reserve takes n bytes, or gives them back where n is negative.
func (v *volume) reserve(n int64) error {
	if n > 0 && v.limit > 0 && v.used+n > v.limit {
		return execution.ErrNoSpace
	}
	v.used += n
	return nil
}

// A tree is the file tree of one sandbox. It is guarded by Backend.files.
type tree struct {
	root     *volume
	mounts   map[*node]*volume // by the directory that they cover
	dir      string            // what relative paths are relative to
	uid, gid uint32
}

// A place is where a path leads: through which nodes, and to what. For a path
// whose last element is missing, node is nil.
type place struct {
	trail []step // from the root to the parent
	name  string
	node  *node
	vol   *volume
}

type step struct {
	name string
	node *node
	vol  *volume
}

// path is the place's absolute path, without links.
func (p place) path() string {
	var b strings.Builder
	for _, s := range p.trail[min(1, len(p.trail)):] {
		b.WriteString("/" + s.name)
	}
	if p.name != "" {
		b.WriteString("/" + p.name)
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func (p place) parent() *node { return p.trail[len(p.trail)-1].node }

// find follows path to something that exists.
func (t *tree) find(path string, follow bool) (place, error) {
	at, err := t.walk(path, follow, false)
	if err == nil && at.node == nil {
		err = execution.ErrNotFound
	}
	return at, err
}

// walk follows path. Only its last element may be missing, unless missing
// parents are to be made.
func (t *tree) walk(path string, follow, makeParents bool) (place, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return place{}, fmt.Errorf("%w: a NUL byte in the path", execution.ErrInvalid)
	}
	if len(path) > maxPath {
		return place{}, fmt.Errorf("%w: the path is longer than %d bytes", execution.ErrInvalid, maxPath)
	}
	if !strings.HasPrefix(path, "/") {
		path = t.dir + "/" + path
	}
	w := walker{tree: t, left: strings.Split(path, "/"), follow: follow, makeParents: makeParents}
	return w.walk()
}

// A walker is on its way along a path.
type walker struct {
	tree        *tree
	left        []string // the elements that are still to come
	trail       []step
	links       int
	follow      bool
	makeParents bool
}

func (w *walker) walk() (place, error) {
	w.trail = []step{{"", w.tree.root.root, w.tree.root}}
	for {
		name, last, slash := w.next()
		here := w.trail[len(w.trail)-1]
		switch {
		case name == "":
			return place{trail: w.trail[:max(1, len(w.trail)-1)], name: here.name, node: here.node, vol: here.vol}, nil
		case len(name) > maxName:
			return place{}, fmt.Errorf("%w: a name is longer than %d bytes", execution.ErrInvalid, maxName)
		case !here.node.mode.IsDir():
			return place{}, execution.ErrNotDir
		case name == "..":
			w.trail = w.trail[:max(1, len(w.trail)-1)]
			continue
		}
		child := here.node.children[name]
		if child == nil && last {
			return place{trail: w.trail, name: name, vol: here.vol}, nil
		}
		if child == nil {
			if !w.makeParents {
				return place{}, execution.ErrNotFound
			}
			child = w.tree.newDir()
			here.node.children[name] = child
		}
		if child.mode.Type() == fs.ModeSymlink && (!last || w.follow || slash) {
			if w.links++; w.links > maxLinks {
				return place{}, fmt.Errorf("%w: too many levels of symbolic links", execution.ErrInvalid)
			}
			if strings.HasPrefix(child.target, "/") {
				w.trail = w.trail[:1]
			}
			w.left = append(strings.Split(child.target, "/"), w.left...)
			continue
		}
		vol := here.vol
		if mounted, ok := w.tree.mounts[child]; ok {
			child, vol = mounted.root, mounted
		}
		if slash && !child.mode.IsDir() {
			return place{}, execution.ErrNotDir
		}
		w.trail = append(w.trail, step{name, child, vol})
	}
}

// next takes the next element, and tells whether it is the last one and
// whether a slash follows.
func (w *walker) next() (name string, last, slash bool) {
	skip := func(e string) bool { return e == "" || e == "." }
	for len(w.left) > 0 && skip(w.left[0]) {
		w.left = w.left[1:]
	}
	if len(w.left) == 0 {
		return "", true, false
	}
	name, w.left = w.left[0], w.left[1:]
	slash = len(w.left) > 0
	for len(w.left) > 0 && skip(w.left[0]) {
		w.left = w.left[1:]
	}
	return name, len(w.left) == 0, slash
}

func (t *tree) newDir() *node {
	return &node{
		mode: fs.ModeDir | 0o755, uid: t.uid, gid: t.gid, modTime: time.Now(), children: map[string]*node{},
	}
}

// put makes a node at a path that is not there yet, with its parents.
func (t *tree) put(path string, n *node) error {
	at, err := t.walk(path, true, true)
	switch {
	case err != nil:
		return err
	case at.node != nil:
		return execution.ErrConflict
	case at.vol.readOnly:
		return errReadOnly
	}
	n.uid, n.gid, n.modTime = t.uid, t.gid, time.Now()
	at.parent().children[at.name] = n
	at.parent().modTime = n.modTime
	return nil
}

// info describes a node.
func (n *node) info(name string) execution.FileInfo {
	return execution.FileInfo{
		Name: name, Size: int64(len(n.data) + len(n.target)), Mode: n.mode, ModTime: n.modTime,
		UID: n.uid, GID: n.gid, Target: n.target,
	}
}

// names are those of a directory's entries, in order.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// below yields all nodes below a directory by their paths, which start with
// prefix, without crossing into mounts.
func (t *tree) below(n *node, prefix string, visit func(path string, n *node)) {
	for _, name := range n.names() {
		child := n.children[name]
		if mounted, ok := t.mounts[child]; ok {
			child = mounted.root
		}
		visit(prefix+name, child)
		if child.mode.IsDir() {
			t.below(child, prefix+name+"/", visit)
		}
	}
}

var errReadOnly = fmt.Errorf("%w: the file system is read-only", execution.ErrPermission)

// plant makes the file tree of a new sandbox.
func (h *Handle) plant() error {
	b, spec := h.backend, h.spec
	b.files.Lock()
	defer b.files.Unlock()
	t := &tree{dir: DefaultDir, uid: h.uid, gid: h.gid, mounts: map[*node]*volume{}}
	t.root = &volume{root: t.newDir(), limit: spec.Limits.Storage}
	h.tree = t
	plant := map[string]*node{
		DefaultDir: t.newDir(), "/tmp": t.newDir(), "/bin": t.newDir(),
		"/dev/null": {mode: fs.ModeDevice | fs.ModeCharDevice | 0o666},
	}
	plant["/tmp"].mode = fs.ModeDir | fs.ModeSticky | 0o777
	for name, program := range b.opts.Programs {
		plant["/bin/"+name] = &node{mode: 0o755, program: program}
	}
	for path, content := range b.opts.Files {
		plant[path] = &node{mode: 0o644, data: []byte(content)}
		t.root.used += int64(len(content))
	}
	for _, path := range slices.Sorted(maps.Keys(plant)) {
		if err := t.put(path, plant[path]); err != nil {
			return fmt.Errorf("file %q: %w", path, err)
		}
	}
	for _, m := range spec.Mounts {
		if err := t.mount(m, b.binds); err != nil {
			return fmt.Errorf("mount on %q: %w", m.Target, err)
		}
	}
	t.root.readOnly = spec.ReadOnly
	at, err := t.find(spec.Dir, true)
	if err != nil || !at.node.mode.IsDir() {
		return fmt.Errorf("%w: %q", execution.ErrDirNotFound, spec.Dir)
	}
	t.dir = spec.Dir
	return nil
}

// mount covers a directory, which is made where it is missing.
func (t *tree) mount(m execution.Mount, binds map[string]*node) error {
	at, err := t.walk(m.Target, true, true)
	if err != nil {
		return err
	}
	if at.node == nil {
		at.node = t.newDir()
		at.parent().children[at.name] = at.node
	}
	root := t.newDir()
	root.mode = fs.ModeDir | fs.ModeSticky | 0o777
	if m.Mode != 0 {
		root.mode = fs.ModeDir | m.Mode.Perm() | m.Mode&(fs.ModeSticky|fs.ModeSetgid|fs.ModeSetuid)
	}
	if m.Type == execution.MountBind {
		if binds[m.Source] == nil {
			binds[m.Source] = root
		}
		root = binds[m.Source]
	}
	t.mounts[at.node] = &volume{root: root, readOnly: m.ReadOnly, limit: m.Size}
	return nil
}
