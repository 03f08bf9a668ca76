package docker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// The labels that every container of ours has, and those of derived images.
const (
	labelOwner   = execution.LabelPrefix + "owner"   // Options.Owner: whose sandboxes these are
	labelProcess = execution.LabelPrefix + "process" // which process made it: "host:pid:start"
	labelContext = execution.LabelPrefix + "context" // which Context made it; unique
	labelCreated = execution.LabelPrefix + "created" // RFC 3339, by the clock of the process
	labelSandbox = execution.LabelPrefix + "sandbox" // of one sandbox; unique
	labelSpec    = execution.LabelPrefix + "spec"    // digest of the spec, without its environment
	labelVersion = execution.LabelPrefix + "version" // of these labels
	labelLease   = execution.LabelPrefix + "lease"   // how long the guest lives without its host, as Go writes it
	labelImage   = execution.LabelPrefix + "image"   // what the spec called the image
	labelKey     = execution.LabelPrefix + "key"     // what a host proves to the guest that it knows, in hex
	labelUser    = execution.LabelPrefix + "user"    // the user of the commands, as "uid:gid"
	labelDetach  = execution.LabelPrefix + "detach"  // "true": it lives without a host
	labelLife    = execution.LabelPrefix + "life"    // Spec.Lifetime, as Go writes it
	labelLabels  = execution.LabelPrefix + "labels"  // the names in Spec.Labels, as a JSON list
	labelKeep    = execution.LabelPrefix + "keep"    // "true": it is to stay, stopped, when its host has gone

	labelDerived = execution.LabelPrefix + "derived" // key of a derived image, or of its builder
	labelBase    = execution.LabelPrefix + "base"    // ID of the image it is derived from
	labelHome    = execution.LabelPrefix + "home"    // home directory of the user inside
)

const labelsVersion = "1"

// newID is a random name part; sixteen hex digits never collide in practice,
// and if they did, the engine would refuse the name.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // Never fails since Go 1.24.
	return hex.EncodeToString(b[:])
}

// containerLabels are all labels of a sandbox. Each of ours is set, since an
// image, which is anybody's, hands its own labels on to its containers.
func (c *Context) containerLabels(spec execution.Spec) map[string]string {
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		labelOwner:   c.opts.Owner,
		labelProcess: c.process,
		labelContext: c.id,
		labelSandbox: newID(),
		labelCreated: time.Now().UTC().Format(time.RFC3339),
		labelSpec:    specDigest(spec),
		labelVersion: labelsVersion,
		labelLease:   c.opts.Lease.String(),
		labelImage:   spec.Image,
		labelKey:     hex.EncodeToString(newKey()),
		labelUser:    spec.User,
		labelDetach:  strconv.FormatBool(spec.Detach),
		labelLife:    spec.Lifetime.String(),
		labelKeep:    strconv.FormatBool(c.opts.Keep),
		labelLabels:  jsonText(slices.Sorted(maps.Keys(spec.Labels))),
	})
	return labels
}

// jsonText is for what never fails to marshal.
func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// userLabels are Spec.Labels of a sandbox: not ours, and not its image's.
func userLabels(labels map[string]string) map[string]string {
	var names []string
	_ = json.Unmarshal([]byte(labels[labelLabels]), &names) // else somebody else made it, with none
	own := make(map[string]string, len(names))
	for _, name := range names {
		if value, ok := labels[name]; ok {
			own[name] = value
		}
	}
	return own
}

// specDigest identifies what was asked for. The environment stays out of it,
// since a digest of a short secret can be guessed.
func specDigest(spec execution.Spec) string {
	spec.Env = nil
	sum := sha256.Sum256([]byte(jsonText(spec)))
	return hex.EncodeToString(sum[:])
}

// shortID is how engines show an ID: its first twelve digits.
func shortID(id string) string {
	const digits = 12
	id = strings.TrimPrefix(id, "sha256:")
	if len(id) > digits {
		return id[:digits]
	}
	return id
}
