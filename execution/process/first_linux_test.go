//go:build linux && (amd64 || arm64)

package process

func helpFirstProcess() error { return nil }
func helpOOM() error          { return nil }
func helpUnprivileged() error { return nil }
func helpPIDs() error         { return nil }
