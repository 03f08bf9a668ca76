package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of the protocol; both sides must have the same.
const Version = 2

// Bounds on what may be sent, in bytes.
const (
	headerSize = 12

	// MaxData is the largest payload of a DATA frame.
	MaxData = 256 << 10

	// MaxReply is the largest payload that a guest may send in an ACK or a
	// RESULT.
	MaxReply = 256 << 10

	// MaxCall is the largest payload of a CALL: more than Linux takes as
	// arguments and environment together.
	MaxCall = 8 << 20

	// MaxHello is the largest payload of a HELLO.
	MaxHello = 4 << 20

	// MaxFarewell is the largest payload of a BYE.
	MaxFarewell = 4 << 10

	maxHelloReply = 64 << 10
	pingSize      = 8
	seenSize      = 8
	creditSize    = 4
)

// Channels is how many channels a stream has in each direction.
const Channels = 3

// A frameType says what a frame is.
type frameType uint8

const (
	frameHello  frameType = 1 + iota // both ways, once, first
	framePing                        // both ways
	framePong                        // both ways
	frameCall                        // to the guest; opens a stream
	frameAck                         // to the host; at most once in a stream
	frameData                        // both ways
	frameEOF                         // to the guest; ends a channel
	frameCredit                      // both ways
	frameCancel                      // to the guest
	frameResult                      // to the host; ends a stream
	frameSeen                        // both ways
	frameBye                         // to the host; why the guest ends
	frameTypes
)

func (t frameType) String() string {
	names := [frameTypes]string{
		frameHello: "HELLO", framePing: "PING", framePong: "PONG", frameCall: "CALL", frameAck: "ACK",
		frameData: "DATA", frameEOF: "EOF", frameCredit: "CREDIT", frameCancel: "CANCEL", frameResult: "RESULT",
		frameSeen: "SEEN", frameBye: "BYE",
	}
	if t > 0 && t < frameTypes {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// ErrViolation says that the peer does not keep to the protocol.
var ErrViolation = errors.New("protocol violation")

// ErrTooLarge says that what was to be sent has no room in a frame. Nothing was
// sent.
var ErrTooLarge = errors.New("too large to be sent")

// Violation makes an error that matches ErrViolation and says what was wrong.
func Violation(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrViolation}, args...)...)
}

// A header is the fixed start of each frame.
type header struct {
	kind    frameType
	channel uint8
	stream  uint32
	length  uint32
}

func (h header) append(b []byte) []byte {
	b = append(b, byte(h.kind), h.channel, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, h.stream)
	return binary.LittleEndian.AppendUint32(b, h.length)
}

// put writes the header to the start of b.
func (h header) put(b []byte) { h.append(b[:0]) }

// parseHeader reads a header and checks all that can be checked without
// knowing the state of its stream. toHost says which way it came.
func parseHeader(b *[headerSize]byte, toHost bool) (header, error) {
	h := header{
		kind:    frameType(b[0]),
		channel: b[1],
		stream:  binary.LittleEndian.Uint32(b[4:]),
		length:  binary.LittleEndian.Uint32(b[8:]),
	}
	if h.kind == 0 || h.kind >= frameTypes || b[2] != 0 || b[3] != 0 {
		return h, Violation("frame header % x", b[:])
	}
	rule := ruleFor(h.kind, toHost)
	switch {
	case rule.max < 0:
		return h, Violation("%v frame from the wrong side", h.kind)
	case int64(h.length) < rule.min || int64(h.length) > rule.max:
		return h, Violation("%v frame of %d bytes: want %d to %d", h.kind, h.length, rule.min, rule.max)
	case (h.stream != 0) != rule.stream:
		return h, Violation("%v frame on stream %d", h.kind, h.stream)
	case h.channel != 0 && (!rule.channel || h.channel >= Channels):
		return h, Violation("%v frame on channel %d", h.kind, h.channel)
	}
	return h, nil
}

// A rule says what a type of frame may look like; a negative max means that
// this side may not send it.
type rule struct {
	min, max        int64
	stream, channel bool
}

func ruleFor(kind frameType, toHost bool) rule {
	never := rule{max: -1}
	only := func(r rule, may bool) rule {
		if may {
			return r
		}
		return never
	}
	switch kind {
	case frameHello:
		if toHost {
			return rule{max: maxHelloReply}
		}
		return rule{max: MaxHello}
	case framePing, framePong:
		return rule{min: pingSize, max: pingSize}
	case frameSeen:
		return rule{min: seenSize, max: seenSize}
	case frameBye:
		return only(rule{max: MaxFarewell}, toHost)
	case frameCall:
		return only(rule{max: MaxCall, stream: true}, !toHost)
	case frameAck, frameResult:
		return only(rule{max: MaxReply, stream: true}, toHost)
	case frameData:
		return rule{min: 1, max: MaxData, stream: true, channel: true}
	case frameEOF:
		return only(rule{stream: true, channel: true}, !toHost)
	case frameCredit:
		return rule{min: creditSize, max: creditSize, stream: true, channel: true}
	case frameCancel:
		return only(rule{stream: true}, !toHost)
	case frameTypes:
	}
	return never
}
