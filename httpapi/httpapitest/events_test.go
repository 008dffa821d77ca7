package httpapitest_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
)

func Example() {
	body := strings.NewReader(`id: 4
event: text_message_content
data: {"kind":"text_message_content","timestamp":1710000000.25,"message_id":"0199d8a4-0000-4000-8000-000000000001","delta":"Hello"}

`) // of a response
	for e, err := range httpapitest.Events(body) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Seq, e.Data.(event.TextMessageContent).Delta)
	}
	// Output: 4 Hello
}

const (
	started  = "id: 1\nevent: run_started\ndata: {\"kind\":\"run_started\",\"timestamp\":1}\n\n"
	finished = "id: 2\nevent: run_error\ndata: {\"kind\":\"run_error\",\"timestamp\":2,\"error\":\"x\"}\n\n"
)

func TestAStreamIsReadHoweverItComes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"as we send it":            started + finished,
		"with comments":            ": hello\n\n" + started + ": keep-alive\n\n" + ":\n" + finished,
		"with CRLF":                strings.ReplaceAll(started+finished, "\n", "\r\n"),
		"in another order":         "data: {\"kind\":\"run_started\",\"timestamp\":1}\nid:1\nevent:run_started\n\n" + finished,
		"with data of two lines":   "id: 1\nevent: run_started\ndata: {\"kind\":\"run_started\",\ndata: \"timestamp\":1}\n\n" + finished,
		"with fields of others":    "retry: 10\n\n" + started + "foo: bar\n" + finished,
		"with events without data": "event: run_started\n\n" + started + finished,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
				kinds, err := httpapitest.Kinds(r)
				require.NoError(t, err)
				assert.Equal(t, []event.Kind{"run_started", "run_error"}, kinds)
			}
		})
	}
}

func TestWhatIsWrongWithAStreamIsTheLastThing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		r    io.Reader
		want error
	}{
		"a cut between lines": {strings.NewReader(started + "id: 2\n"), io.ErrUnexpectedEOF},
		"a cut within a line": {strings.NewReader(started + "da"), io.ErrUnexpectedEOF},
		"a broken connection": {io.MultiReader(strings.NewReader(started), iotest.ErrReader(broken)), broken},
		"no JSON":             {strings.NewReader(started + "id: 2\nevent: run_error\ndata: x\n\n" + finished), nil},
		"an unknown kind":     {strings.NewReader(started + "id: 2\nevent: x\ndata: {\"kind\":\"x\"}\n\n" + finished), nil},
		"another kind":        {strings.NewReader(started + strings.Replace(finished, "event: run_error", "event: run_finished", 1)), nil},
		"no number":           {strings.NewReader(started + strings.Replace(finished, "id: 2\n", "", 1)), nil},
		"a line without end":  {io.MultiReader(strings.NewReader(started), strings.NewReader("data: "+strings.Repeat("x", httpapitest.MaxLine))), nil},
		"an error of no JSON": {strings.NewReader(started + "event: error\ndata: x\n\n" + finished), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds, err := httpapitest.Kinds(c.r)
			require.Error(t, err)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
			assert.Equal(t, []event.Kind{"run_started"}, kinds)
		})
	}
	kinds, err := httpapitest.Kinds(strings.NewReader(started + "event: error\ndata: {\"code\":503000,\"message\":\"come back\"}\n\n"))
	var e *httpapi.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, httpapi.CodeUnavailable, e.Code)
	assert.Equal(t, "come back", e.Message)
	assert.Equal(t, []event.Kind{"run_started"}, kinds)
}

func TestALoopOverAStreamCanBeLeft(t *testing.T) {
	t.Parallel()
	for e, err := range httpapitest.Events(strings.NewReader(started + finished)) {
		require.NoError(t, err)
		assert.EqualValues(t, 1, e.Seq)
		break
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(started + finished)
	f.Add("event: error\ndata: {\"code\":422001,\"fields\":[{\"field\":\"a\",\"errors\":[{\"code\":\"range\",\"message\":null}]}]}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		failed := false
		for e, err := range httpapitest.Events(strings.NewReader(text)) {
			require.False(t, failed, "an error is the last thing")
			failed = err != nil
			require.Equal(t, err == nil, e.Data != nil)
		}
	})
}
