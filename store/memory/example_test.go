package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// A program hands the store to a runner or an agent. It may also add to a session by itself.
func Example() {
	ctx := context.Background()
	st := memory.New(nil)
	defer st.Close()

	session, err := st.CreateSession(ctx, "acme", uuid.New())
	if err != nil {
		log.Fatal(err)
	}
	note := message.NewSystem("The customer prefers short answers.")
	note.ID, note.SessionID = uuid.New(), session.ID
	record, err := store.EncodeMessage(note)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := st.CreateMessage(ctx, "acme", &record); err != nil {
		log.Fatal(err)
	}

	position, err := st.Load(ctx, &store.Load{Tenant: "acme", Session: session.ID})
	if err != nil {
		log.Fatal(err)
	}
	m, err := position.Messages[0].Decode()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Role(), m.(*message.System).Content)
	// Output: system The customer prefers short answers.
}
