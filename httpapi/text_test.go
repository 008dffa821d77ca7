package httpapi_test

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

// textOf joins the text of a stream.
func textOf(events []event.Event) string {
	var text strings.Builder
	for _, e := range events {
		if d, ok := e.Data.(event.TextMessageContent); ok {
			text.WriteString(d.Delta)
		}
	}
	return text.String()
}

// status2 waits for the end of a run of another tenant.
func (b *bundle) status2(run uuid.UUID, header string) {
	b.Helper()
	tenant := strings.TrimPrefix(header, "X-Tenant-ID: ")
	handle, err := b.agent.Attach(b.Context(), tenant, run)
	require.NoError(b, err)
	_, err = handle.Wait(context.WithoutCancel(b.Context()))
	require.NoError(b, err)
}
