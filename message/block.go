package message

// Block is one piece of a user message: a [Text] or a [Media] value.
type Block interface {
	Part
	sealedBlock()
}

// Text is a block of text.
type Text struct{ Value string }

// Media is a block that is not text.
type Media struct {
	Kind      MediaKind
	Source    Source
	MediaType string // MIME type, such as image/png
}

// MediaKind says what a [Media] block is; it is the block's type in JSON.
type MediaKind string

// The kinds of media.
const (
	Image    MediaKind = "image"
	Audio    MediaKind = "audio"
	Video    MediaKind = "video"
	Document MediaKind = "document"
)

func (k MediaKind) valid() bool { return k == Image || k == Audio || k == Video || k == Document }

// Source says where the bytes of a [Media] block are.
type Source struct {
	Type  SourceType
	Value string // an absolute URL or the bytes in base64
}

// SourceType says how to read a [Source].
type SourceType string

// The types of sources.
const (
	SourceURL    SourceType = "url"
	SourceBase64 SourceType = "base64"
)

func (t SourceType) valid() bool { return t == SourceURL || t == SourceBase64 }

func (Text) sealedBlock()  {}
func (Media) sealedBlock() {}
