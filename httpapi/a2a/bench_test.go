package a2a_test

import (
	"fmt"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/react"
)

// BenchmarkGet is a look at a task of a conversation of that many messages.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := serve(b, parrot(b, nil))
			c := w.client(b, sdk.TransportProtocolJSONRPC)
			session := uuid.New()
			in := react.Input{Session: session}
			for i := range n {
				in.Messages = append(in.Messages, message.NewUser(fmt.Sprint("message ", i)))
			}
			_, err := do(b, w.agent, in)
			require.NoError(b, err)
			task := send(b, c, about(ask("hello"), "", session.String()))
			for b.Loop() {
				_, err := c.GetTask(b.Context(), &sdk.GetTaskRequest{ID: task.ID})
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkSend is a message to a new context, and its whole task.
func BenchmarkSend(b *testing.B) {
	c := serve(b, parrot(b, nil)).client(b, sdk.TransportProtocolJSONRPC)
	for b.Loop() {
		send(b, c, ask("hello"))
	}
}
