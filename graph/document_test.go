package graph_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// scale is a store that weighs the documents it is given.
type scale struct {
	*memory.Store
	mu    sync.Mutex // guards what follows
	sizes []int
	kinds string // "w" for a whole document, "p" for a patch
}

func (s *scale) weigh(steps []store.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range steps {
		if step.Document != nil {
			s.sizes = append(s.sizes, len(step.Document.Body))
			if step.Document.Patch {
				s.kinds += "p"
			} else {
				s.kinds += "w"
			}
		}
	}
}

func (s *scale) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	s.weigh(b.Steps)
	return s.Store.Begin(ctx, b)
}

func (s *scale) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	s.weigh(c.Steps)
	return s.Store.Commit(ctx, c)
}

func TestASmallChangeOfALargeDocumentIsSmall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bytes, rest int }{
		"in a few steps":   {1 << 20, 4},
		"in a lot of them": {1 << 16, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &scale{Store: memory.New(nil)}
			repeatable := &graph.NodeOptions{Repeatable: true}
			g := chain(t, parts{options: map[string]*graph.NodeOptions{"alpha": repeatable, "beta": repeatable, "gamma": repeatable}})
			r := newRunner(t, g, st, nil)
			run, d := complete(t, r, graph.StartParams[doc]{Input: &doc{Text: strings.Repeat("x", c.bytes), Rest: c.rest}})
			require.Greater(t, st.sizes[0], c.bytes)
			assert.Len(t, st.sizes, c.rest+4, "the finish changed nothing")
			for _, size := range st.sizes[1:] {
				assert.Less(t, size, 300)
			}
			assert.Equal(t, d, stateAt(t, newRunner(t, g, st, nil), run.Session(), uuid.Nil), "read from the patches")

			// The next process goes on with the chain that it finds.
			n := len(st.sizes)
			_, d = complete(t, newRunner(t, g, st, nil), graph.StartParams[doc]{Session: run.Session()})
			assert.Len(t, d.Trail, c.rest+6)
			for _, size := range st.sizes[n:] {
				assert.Less(t, size, 300)
			}
		})
	}
}

func TestAChainOfPatchesGoesOnInTheNextProcess(t *testing.T) {
	t.Parallel()
	st := &scale{Store: memory.New(nil)}
	session := uuid.New()
	p := graph.StartParams[doc]{Session: session, Input: &doc{Text: strings.Repeat("x", 500), Rest: 15}}
	complete(t, newRunner(t, chain(t, parts{}), st, nil), p)
	p.Input = nil
	for range 9 {
		complete(t, newRunner(t, chain(t, parts{}), st, nil), p)
	}
	assert.Equal(t, "w"+strings.Repeat("p", 32)+"w"+strings.Repeat("p", 12), st.kinds)
}

func TestEveryCheckpointOfALongChainIsReadAsItWas(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	want := make(map[uuid.UUID]string)
	g := chain(t, parts{beta: func(ctx context.Context, d doc) (doc, error) { d.Text += "x"; return d, nil }})
	r := newRunner(t, g, st, nil)
	run, _ := complete(t, r, graph.StartParams[doc]{Input: &doc{Rest: 80}})
	for i, c := range checkpoints(t, st, run.Session()) {
		n := min(max(i-1, 0), 81)
		want[c.ID] = strings.Repeat("x", n)
	}
	for id, text := range want {
		assert.Equal(t, text, stateAt(t, r, run.Session(), id).Text)
	}
}

// talk is a codec of a state that is a conversation: its messages are kept each on its own.
type talk struct{}

type conversation struct {
	Messages []message.Message
	Turns    int
}

func (talk) Version() int { return 3 }
func (talk) Encode(_ json.RawMessage, before, after conversation) (checkpoint.Change, error) {
	c := checkpoint.Change{Messages: after.Messages[len(before.Messages):]}
	if before.Turns != after.Turns {
		c.Document = func() (json.RawMessage, error) { return json.Marshal(after.Turns) }
	}
	return c, nil
}
func (talk) Decode(version int, document json.RawMessage, messages []message.Message) (s conversation, err error) {
	s.Messages = messages
	if document != nil {
		err = json.Unmarshal(document, &s.Turns)
	}
	return s, err
}
func (talk) Merge(_ *checkpoint.Checkpoint, current, input conversation) (conversation, error) {
	current.Messages = append(current.Messages[:len(current.Messages):len(current.Messages)], input.Messages...)
	return current, nil
}
func (talk) Result(conversation) (json.RawMessage, error) { return nil, nil }

type answerer struct{ Done graph.End[answerer] }

func (n *answerer) Run(_ context.Context, c conversation) (conversation, graph.Next[answerer], error) {
	c.Messages = append(c.Messages[:len(c.Messages):len(c.Messages)], message.NewSystem("reply"))
	c.Turns++
	return c, n.Done.Next(), nil
}

func TestMessagesAreKeptEachOnceAndStampedWithTheirCheckpoint(t *testing.T) {
	t.Parallel()
	st := memory.New(nil)
	g := graph.Must(graph.New("talk", graph.Node("answerer", &answerer{})))
	r, err := graph.NewRunner(g, st, &graph.RunnerOptions[conversation]{Codec: talk{}})
	require.NoError(t, err)
	texts := func(list []message.Message) (out []string) {
		for _, m := range list {
			out = append(out, m.(*message.System).Content)
		}
		return out
	}
	session := uuid.New()
	_, err = st.CreateSession(t.Context(), tenant, session)
	require.NoError(t, err)
	outside := func(text string) {
		m := message.NewSystem(text)
		m.ID, m.SessionID = uuid.New(), session
		record, err := store.EncodeMessage(m)
		require.NoError(t, err)
		_, err = st.CreateMessage(t.Context(), tenant, &record)
		require.NoError(t, err)
	}
	outside("before")
	say := func(text string) (conversation, uuid.UUID) {
		run, err := r.Start(t.Context(), graph.StartParams[conversation]{Session: session, Input: &conversation{Messages: []message.Message{message.NewSystem(text)}}})
		require.NoError(t, err)
		c, err := run.Wait(t.Context())
		require.NoError(t, err)
		return c, run.ID()
	}
	c, first := say("one")
	made := c.Messages
	assert.Equal(t, []string{"before", "one", "reply"}, texts(c.Messages), "those that no run brought are seen from the first run on")
	outside("between")
	c, _ = say("two")
	assert.Equal(t, []string{"before", "one", "reply", "between", "two", "reply"}, texts(c.Messages), "what came in between is seen, too, though the state was in memory")
	assert.Equal(t, 2, c.Turns)

	line := checkpoints(t, st, session)
	for i, reason := range []checkpoint.Reason{checkpoint.Input, checkpoint.Step} {
		head := made[1+i].Head()
		assert.Equal(t, reason, line[i].Reason)
		assert.Equal(t, line[i].ID, head.CheckpointID)
		assert.Equal(t, first, head.RunID)
		assert.Equal(t, session, head.SessionID)
		assert.Equal(t, line[i].CreatedAt, head.CreatedAt, "the store's time, also in memory")
	}
	assert.Equal(t, 3, line[0].Version)
	page, err := st.Messages(t.Context(), &store.MessageQuery{Tenant: tenant, Session: session})
	require.NoError(t, err)
	assert.Equal(t, 6, page.Count)

	t.Run("a fork sees those of its line and those of no run", func(t *testing.T) {
		run, err := r.Start(t.Context(), graph.StartParams[conversation]{Session: session, Checkpoint: line[2].ID, Input: &conversation{Messages: []message.Message{message.NewSystem("other")}}})
		require.NoError(t, err)
		c, err := run.Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"before", "one", "reply", "between", "other", "reply"}, texts(c.Messages))
		assert.Equal(t, 2, c.Turns)
	})
}
