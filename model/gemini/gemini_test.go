package gemini_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/model/gemini"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/react/reacttest"
)

var _ react.Model = (*gemini.Model)(nil)

func TestModel(t *testing.T) {
	t.Parallel()
	reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
		chunks := script(s.Reply)
		switch {
		case s.Transient:
			return serve(t, refuse(503, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`)).model(t)
		case s.Permanent:
			return serve(t, refuse(400, `{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT"}}`)).model(t)
		case s.Silent:
			return serve(t, silent).model(t)
		case s.Cut:
			return serve(t, func(w http.ResponseWriter, r *http.Request) {
				stream(chunks[0])(w, r)
				panic(http.ErrAbortHandler)
			}).model(t)
		}
		return serve(t, stream(chunks...)).model(t)
	})
}

func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestTheModelOfTheRequestIsAskedWithTheKey(t *testing.T) {
	t.Parallel()
	f := serve(t, stream(finish("STOP")))
	_, err := ask(t, f.model(t))
	require.NoError(t, err)
	assert.Equal(t, []string{"POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"}, f.paths)
	assert.Equal(t, []string{key}, f.keys)
}

func TestVertexAIIsAskedInItsOwnWay(t *testing.T) {
	t.Parallel()
	f := serve(t, stream(parts(`{"text":"Hi."}`), finish("STOP")))
	m := newModel(t, &gemini.Options{
		BaseURL: f.URL, Backend: genai.BackendVertexAI, Project: "p", Location: "l", HTTPClient: f.Client(),
	})
	reply, err := ask(t, m)
	require.NoError(t, err)
	assert.Equal(t, "Hi.", reply.Text)
	assert.Equal(t, []string{"POST /v1beta1/projects/p/locations/l/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse"}, f.paths)
}

func TestWithoutAKeyThereIsNoModel(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
	_, err := gemini.New(t.Context(), &gemini.Options{Backend: genai.BackendGeminiAPI})
	require.EqualError(t, err, "gemini: api key is required for Google AI backend")
}

func TestTheKeyOfTheEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "from-environment")
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "")
	f := serve(t, stream(finish("STOP")))
	t.Setenv("GOOGLE_GEMINI_BASE_URL", f.URL)
	_, err := ask(t, newModel(t, nil))
	require.NoError(t, err)
	assert.Equal(t, []string{"from-environment"}, f.keys)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheKeyIsInNoError(t *testing.T) {
	t.Parallel()
	quoting := `{"error":{"code":400,"message":"API key ` + key + ` is not valid","status":"INVALID_ARGUMENT"}}`
	for name, m := range map[string]*gemini.Model{
		"the API":   serve(t, refuse(400, quoting)).model(t),
		"plain":     serve(t, refuse(502, key)).model(t),
		"the reply": serve(t, stream(quoting)).model(t),
		"a transport": newModel(t, &gemini.Options{APIKey: key, HTTPClient: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return nil, errors.New("cannot send " + r.Header.Get("X-Goog-Api-Key"))
			}),
		}}),
		"a URL": newModel(t, &gemini.Options{APIKey: key, BaseURL: "http://127.0.0.1:1/" + key + "/?key=" + key}),
	} {
		_, err := ask(t, m)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), key, name)
	}
	_, err := gemini.New(t.Context(), &gemini.Options{APIKey: key, Backend: genai.BackendGeminiAPI, Project: "p"})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), key)
}

func TestAConnectionThatFailsMayWorkNextTime(t *testing.T) {
	t.Parallel()
	f := serve(t, silent)
	m := f.model(t)
	f.Close()
	_, err := ask(t, m)
	require.NotNil(t, transient(err), "%v", err)
	assert.True(t, strings.HasPrefix(err.Error(), "gemini: dial "), "%v", err)
}

func TestThereIsOneAttempt(t *testing.T) {
	t.Parallel()
	f := serve(t, refuse(503, ""))
	_, err := ask(t, f.model(t))
	require.ErrorIs(t, err, message.ErrOverloaded)
	assert.Len(t, f.bodies, 1)
}

func TestAContextThatEndsEndsTheCallWithItsError(t *testing.T) {
	t.Parallel()
	t.Run("before the first byte", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := message.Collect(serve(t, silent).model(t).Generate(ctx, greeting()))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Nil(t, transient(err))
	})
	t.Run("in the middle", func(t *testing.T) {
		t.Parallel()
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			stream(parts(`{"text":"Well"}`))(w, r)
			silent(w, r)
		}).model(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var c message.Collector
		for d, err := range m.Generate(ctx, greeting()) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			c.Add(d)
			cancel()
		}
		assert.Equal(t, "Well", c.Reply().Text)
	})
}

func TestATimeoutOfTheClientLimitsTheWholeReply(t *testing.T) {
	t.Parallel()
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(parts(`{"text":"Well"}`))(w, r)
		silent(w, r)
	})
	m := newModel(t, &gemini.Options{APIKey: key, BaseURL: f.URL, HTTPClient: &http.Client{Timeout: 50 * time.Millisecond}})
	_, err := ask(t, m)
	require.NotNil(t, transient(err), "%v", err)

	// And it does not end a reply before that, however long the reply takes.
	read := make(chan struct{})
	f = serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(parts(`{"text":"Well"}`))(w, r)
		<-read
		stream(finish("STOP"))(w, r)
	})
	m = newModel(t, &gemini.Options{APIKey: key, BaseURL: f.URL, HTTPClient: &http.Client{Timeout: time.Minute}})
	var last message.Delta
	for d, err := range m.Generate(t.Context(), greeting()) {
		require.NoError(t, err)
		if last = d; d == (message.TextDelta{Text: "Well"}) {
			close(read)
		}
	}
	assert.IsType(t, message.Done{}, last)
}

func TestTheConnectionIsClosedWhenALoopIsLeft(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(closed)
		stream(parts(`{"text":"Well"}`))(w, r)
		silent(w, r)
	}).model(t)
	for range m.Generate(t.Context(), greeting()) {
		break
	}
	<-closed
}

func TestAModelWithoutANameIsNotAskedFor(t *testing.T) {
	t.Parallel()
	f := serve(t, stream(finish("STOP")))
	for _, name := range []string{"", "a/../b", "a?key=b"} {
		req := greeting()
		req.Model = name
		_, err := message.Collect(f.model(t).Generate(t.Context(), req))
		require.ErrorIs(t, err, message.ErrInvalidRequest, name)
	}
	assert.Empty(t, f.bodies)
}
