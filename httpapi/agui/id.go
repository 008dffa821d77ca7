package agui

import (
	"bytes"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/internal/wire"
	"github.com/everstep-go/everstep/message"
)

// maxID is how many bytes an id of a client may have.
const maxID = 1024

// SessionID returns the session of a thread: the id itself if it is a UUID, else the UUID (version 5, name space
// DNS) of the text. Threads of different tenants never share a session.
func SessionID(thread string) uuid.UUID { return mapped(uuid.NameSpaceDNS, thread) }

// MessageID returns the id under which a session keeps a message of a client. It is made as [SessionID] makes
// its.
func MessageID(id string) uuid.UUID { return mapped(uuid.NameSpaceDNS, id) }

// RunID returns the run that a client means by an id in a thread: the id itself if it is a UUID, else the UUID
// (version 5) of the text in the name space of the session. Clients number the runs of each thread anew, while
// runs are unique in a tenant.
func RunID(thread, id string) uuid.UUID { return mapped(SessionID(thread), id) }

// answerID is the id of the run that answers what a run asked, for clients that give both the same id.
func answerID(asked uuid.UUID) uuid.UUID { return uuid.NewSHA1(asked, []byte("resume")) }

func mapped(space uuid.UUID, text string) uuid.UUID {
	// The nil UUID stands for none.
	if id, ok := wire.ParseUUID(text); ok && id != uuid.Nil {
		return id
	}
	return uuid.NewSHA1(space, []byte(text))
}

// idKey is the member of a message's metadata that keeps the id that its client gave it, where that is not how
// we spell it.
const idKey = "ag_ui_id"

// label puts the id of a client into the metadata of a message, if the message does not have it already.
func label(h *message.Header, id string) error {
	h.ID = MessageID(id)
	if h.ID.String() == id {
		return nil
	}
	members := map[string]json.RawMessage{}
	if h.Metadata != nil {
		if err := json.Unmarshal(h.Metadata, &members); err != nil {
			return err
		}
	}
	members[idKey] = wire.AppendText(nil, id)
	var err error
	h.Metadata, err = wire.Marshal(members)
	return err
}

// unlabel returns the id by which the client knows a message, and what else is in its metadata, nil if nothing is.
func unlabel(h *message.Header) (id string, metadata json.RawMessage) {
	if !bytes.Contains(h.Metadata, []byte(`"`+idKey+`"`)) {
		return h.ID.String(), h.Metadata
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(h.Metadata, &members) != nil || json.Unmarshal(members[idKey], &id) != nil || MessageID(id) != h.ID {
		return h.ID.String(), h.Metadata // somebody else's
	}
	delete(members, idKey)
	if len(members) == 0 {
		return id, nil
	}
	metadata, err := wire.Marshal(members)
	if err != nil {
		return id, nil
	}
	return id, metadata
}
