// Package wire carries many operations at once over one byte stream between a
// host and a guest. It knows nothing of what the operations are.
//
// # The life of a connection
//
// Each side makes a [Mux] on its end of the stream. Both send one HELLO: first
// the host ([Mux.Greet]), then the guest ([Mux.AwaitHello], [Mux.Answer]).
// After that the host opens streams ([Mux.Open]), each of which is one
// operation:
//
//	host                         guest
//	CALL  what to do    ──────▶
//	      ◀──────────────────── ACK     begun (not for short operations)
//	DATA  channel 0     ──────▶         as far as credit goes
//	EOF   channel 0     ──────▶
//	      ◀──────────────────── DATA    channels 0 to 2, as far as credit goes
//	      ◀──────────────────── CREDIT  for what was consumed
//	CREDIT              ──────▶
//	CANCEL              ──────▶         no longer wanted
//	      ◀──────────────────── RESULT  always, and the last frame of a stream
//
// PING is answered by PONG, whichever side sends it.
//
// # Frames
//
// A frame is a header of 12 bytes and a payload: type (1 byte), channel (1),
// zero (2), stream (4), length of the payload (4), all little endian. Bounds
// stand with the constants of this package.
//
// # Flow control
//
// Each channel of a stream may carry as many bytes as the receiver has given
// credit for: initialWindow at first, and what CREDIT adds. So there is always
// room for what arrives, and the goroutine that reads never waits for a slow
// consumer. A window grows while its consumer keeps up.
//
// # Trust
//
// The host takes the guest for hostile. Whatever breaks these rules ends the
// connection with an error that matches [ErrViolation]. What a guest can make
// the host hold is bounded by the credit of the streams that the host opened.
// The guest trusts its host, and ignores frames for streams that have ended.
package wire
