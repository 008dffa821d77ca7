// Package wire holds the rules at the JSON border: what the library accepts as JSON from outside, and how it
// prints JSON itself.
//
//	data, err := wire.Clean(body)  // from outside: checked, compact, decodable without loss
//	out, err := wire.Marshal(v)    // to outside: no HTML escapes, no trailing newline
//
// # Guarantees
//
// What [Clean] returns is valid UTF-8 and valid JSON without insignificant white space, holds at most [MaxDepth]
// nested containers and no escape of half a surrogate pair. Numbers keep their spelling, escaped NULs stay, and
// repeated keys stay too: decoders let the last one win. Cleaning twice is cleaning once, and neither time nor
// stack depend on anything but the length of the input.
//
// # Errors
//
// Every error of Clean is an [*Error] with the offset of the byte at fault and wraps one of [ErrSyntax],
// [ErrUTF8] and [ErrDepth].
package wire
