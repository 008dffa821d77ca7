package reflex

import (
	"crypto/sha256"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// ChatType says what kind of chat an address is in.
type ChatType string

const (
	DM    ChatType = "dm"
	Group ChatType = "group"
)

// NativeChannel is the channel of sessions that people run in an agent's own client. Nobody
// serves it.
const NativeChannel = "native"

// Address is where something is said: a chat of a channel, perhaps a thread in it, and who is on
// the other side.
type Address struct {
	Channel string   `json:"channel"`
	Type    ChatType `json:"type,omitempty"`
	Chat    string   `json:"chat,omitempty"`
	User    string   `json:"user,omitempty"`   // the person's id on the channel
	Thread  string   `json:"thread,omitempty"` // the platform's id of a thread
	Shared  bool     `json:"shared,omitempty"` // several people read what is said there
}

// ID names the place of the address, whoever is on the other side.
func (a Address) ID() string {
	parts := []string{url.PathEscape(a.Channel), string(a.Type), url.PathEscape(a.Chat)}
	if a.Thread != "" {
		parts = append(parts, url.PathEscape(a.Thread))
	}
	return strings.Join(parts, ":")
}

// Room returns the address of the chat that the thread of the address is in.
func (a Address) Room() Address {
	a.Thread = ""
	return a
}

// Private reports whether only one person reads what is said there.
func (a Address) Private() bool { return a.Type == DM && !a.Shared }

// Mode says whether a run speaks on the main surface of its chat or in a thread of it.
type Mode string

const (
	Main Mode = "main"
	Sub  Mode = "sub"
)

// Place is where a run happens or a signal came from.
type Place struct {
	Address Address `json:"address"`
	Mode    Mode    `json:"mode,omitempty"`
}

// IsZero reports whether there is no place.
func (p Place) IsZero() bool { return p.Address.Channel == "" }

// Segment is a piece of a visible message: a text or a media file.
type Segment struct {
	Text      string `json:"text,omitempty"`
	MediaURL  string `json:"media_url,omitempty"` // absolute; the text then describes it
	MediaType string `json:"media_type,omitempty"`
}

// Text returns a message of one text.
func Text(text string) []Segment { return []Segment{{Text: text}} }

// textOf returns the texts of a message, each segment in its own text form.
func textOf(segments []Segment) string {
	var out []string
	for _, s := range segments {
		text := s.Text
		if s.MediaURL != "" && text == "" {
			text = "[" + s.MediaType + " " + s.MediaURL + "]"
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

func blank(segments []Segment) bool { return strings.TrimSpace(textOf(segments)) == "" }

// Profile is a person's account on one channel.
type Profile struct {
	Channel string `json:"channel"`
	ID      string `json:"id"`             // on the channel
	Name    string `json:"name,omitempty"` // shown to agents
	User    string `json:"user,omitempty"` // the linked user, the same on all channels; empty: unknown
}

// idOf returns the id that follows from parts, so that whatever is done twice for them, after a
// crash, is one thing.
func idOf(parts ...string) uuid.UUID {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
