package wire

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A host that comes back knocks before it speaks: it and the guest prove to
// each other that they know the sandbox's key, without telling it to whoever
// listens, and agree on what is to follow.
//
//	guest  magic and version, a number that is used once
//	host   what it wants, a number of its own, proof
//	guest  its answer, proof
//
// All integers are little endian.

// SessionSize is how long the name of a session is, in bytes.
const SessionSize = 16

// A KnockMode says what a host wants.
type KnockMode uint8

// The modes.
const (
	KnockProbe     KnockMode = 1 + iota // to know that the guest lives
	KnockResume                         // to go on with a session
	KnockExclusive                      // a session, when nobody else has one
	KnockTakeOver                       // a session, and nobody else to have one
	KnockShared                         // a session beside those of others
	knockModes
)

// A Knock is what a host wants.
type Knock struct {
	Mode     KnockMode
	Session  [SessionSize]byte // for KnockResume
	Received uint64            // for KnockResume: what Park returned
}

// A KnockStatus is how a guest answers.
type KnockStatus uint8

// The answers.
const (
	KnockOK       KnockStatus = 1 + iota
	KnockHeld                 // somebody else has the sandbox
	KnockReplaced             // the session has ended, and somebody else has the sandbox
	KnockExpired              // the session has ended
	knockStatuses
)

// A KnockAnswer is a guest's answer.
type KnockAnswer struct {
	Status   KnockStatus
	Received uint64 // to KnockResume: what Park returned
}

const (
	numberSize  = 32
	proofSize   = sha256.Size
	requestSize = 1 + SessionSize + 8 + numberSize
	answerSize  = 1 + 8
)

// ErrImposter says that the other side does not know the sandbox's key.
var ErrImposter = errors.New("the other side does not know the sandbox's key")

// proof shows that one knows the key, for this conversation and side only.
func proof(key []byte, side string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(side))
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// bounded runs do, and closes conn when ctx ends before it.
func bounded(ctx context.Context, conn io.Closer, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := do()
	if !stop() {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// Ask is the host's side of a knock. When it fails, conn is of no more use.
func (k Knock) Ask(ctx context.Context, conn io.ReadWriteCloser, key []byte) (a KnockAnswer, err error) {
	err = bounded(ctx, conn, func() error {
		a, err = k.ask(conn, key)
		return err
	})
	return a, err
}

func (k Knock) ask(conn io.ReadWriter, key []byte) (a KnockAnswer, err error) {
	greeting := make([]byte, len(magic)+numberSize)
	if n, err := io.ReadFull(conn, greeting); err != nil {
		return a, fmt.Errorf("knock: %w, after %q", err, greeting[:n])
	}
	switch v := greeting[len(magic)-1]; {
	case string(greeting[:len(magic)-1]) != magic[:len(magic)-1]:
		return a, Violation("answer to a knock %q", greeting)
	case v != Version:
		return a, versionError(v)
	}
	request := make([]byte, 0, requestSize+proofSize)
	request = append(append(request, byte(k.Mode)), k.Session[:]...)
	request = binary.LittleEndian.AppendUint64(request, k.Received)
	request = append(request, make([]byte, numberSize)...)
	if _, err := rand.Read(request[requestSize-numberSize:]); err != nil {
		return a, err
	}
	request = append(request, proof(key, "host", greeting, request)...)
	if _, err := conn.Write(request); err != nil {
		return a, fmt.Errorf("knock: %w", err)
	}
	answer := make([]byte, answerSize+proofSize)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return a, fmt.Errorf("knock: %w", err)
	}
	if !hmac.Equal(answer[answerSize:], proof(key, "guest", request, answer[:answerSize])) {
		return a, ErrImposter
	}
	a = KnockAnswer{Status: KnockStatus(answer[0]), Received: binary.LittleEndian.Uint64(answer[1:])}
	if a.Status == 0 || a.Status >= knockStatuses {
		return a, Violation("answer %d to a knock", a.Status)
	}
	return a, nil
}

// Admit is the guest's side of a knock: it returns what the host wants, and how
// to answer. When it fails, conn is of no more use.
func Admit(ctx context.Context, conn io.ReadWriteCloser, key []byte) (k Knock, answer func(KnockAnswer) error, err error) {
	err = bounded(ctx, conn, func() error {
		k, answer, err = admit(conn, key)
		return err
	})
	return k, answer, err
}

func admit(conn io.ReadWriter, key []byte) (k Knock, answer func(KnockAnswer) error, err error) {
	greeting := append([]byte(magic), make([]byte, numberSize)...)
	if _, err := rand.Read(greeting[len(magic):]); err != nil {
		return k, nil, err
	}
	if _, err := conn.Write(greeting); err != nil {
		return k, nil, err
	}
	request := make([]byte, requestSize+proofSize)
	if _, err := io.ReadFull(conn, request); err != nil {
		return k, nil, err
	}
	if !hmac.Equal(request[requestSize:], proof(key, "host", greeting, request[:requestSize])) {
		return k, nil, ErrImposter
	}
	k.Mode = KnockMode(request[0])
	copy(k.Session[:], request[1:])
	k.Received = binary.LittleEndian.Uint64(request[1+SessionSize:])
	if k.Mode == 0 || k.Mode >= knockModes {
		return k, nil, Violation("knock %d", k.Mode)
	}
	return k, func(a KnockAnswer) error {
		b := binary.LittleEndian.AppendUint64([]byte{byte(a.Status)}, a.Received)
		_, err := conn.Write(append(b, proof(key, "guest", request, b)...))
		return err
	}, nil
}
