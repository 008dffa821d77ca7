// Package message holds what people, models and tools say to each other: the messages of a conversation, the
// request that a model is asked, and the pieces in which its reply arrives. It knows no provider, no agent and
// no store.
//
//	m := message.NewUser("Umbrella in Oslo?")
//	data, err := json.Marshal(m)          // the form clients see
//	m, err := message.Unmarshal(data)     // and back
//
// A [Message] is one of five types, told apart by a type switch. A [Request] carries messages to a model; an
// adapter for a provider reads its [Request.Turns] and answers with a sequence of [Delta] values, which a
// [Collector] adds up to a [Reply].
//
// # Guarantees
//
// A message survives the way to JSON and back unchanged, and so it does [EncodeBody] and [DecodeBody], the
// short form for stores: numbers in arguments and metadata keep their spelling, whatever their size, and text
// keeps every character, NUL included. Only what is not text does not survive: bytes that are not UTF-8 become
// U+FFFD when a Go string is printed and are refused when they come from outside; escapes of half a surrogate
// pair become U+FFFD. From outside, at most 512 nested containers are accepted.
//
// What [WellFormed] returns is acceptable to providers whatever the history holds, and the same history always
// gives the same messages.
//
// Unknown fields of messages are ignored, unknown roles and kinds are errors.
//
// # Errors
//
// Decoding reports a [*RoleError] or a [*FieldError] that names the field. Adapters of
// providers return a [*ProviderError] that says of which kind it is, such as [ErrTooLong], and mark with
// [Transient] what may work if it is tried again.
package message
