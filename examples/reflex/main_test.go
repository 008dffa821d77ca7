package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/examples/internal/programtest"
	"github.com/everstep-go/everstep/reflex"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// day is an office in a test.
type day struct {
	*testing.T
	*office
	dir string
	log *reflex.Subscription
}

func (d *day) start() {
	o, err := open(d.dir, io.Discard)
	require.NoError(d, err)
	d.office = o
	d.log = o.engine.Bus().Subscribe(reflex.Filter{All: true})
}

// restart is the end of the process and the start of another one.
func (d *day) restart() {
	d.close()
	d.start()
}

func (d *day) said(at reflex.Address, text string) reflex.Outcome {
	d.Helper()
	o, err := d.say(d.Context(), at, text)
	require.NoError(d, err)
	return o
}

// heard returns the kinds of the events up to the end of a pass.
func heard(ctx context.Context, sub *reflex.Subscription) []string {
	var kinds []string
	for e := range sub.Events(ctx) {
		kinds = append(kinds, e.Data.Kind())
		if _, ok := e.Data.(reflex.ReflexAsleep); ok {
			break
		}
	}
	return slices.Compact(kinds)
}

func (d *day) owner(at reflex.Address) string {
	h, err := d.engine.Books().Handoffs.Owner(d.Context(), at.ID())
	require.NoError(d, err)
	return h.Agent
}

func (d *day) batch(id string) reflex.Batch {
	b, err := d.engine.Books().Batches.Batch(d.Context(), id)
	require.NoError(d, err)
	return b
}

func (d *day) rows(at reflex.Address) []reflex.Row {
	rows, err := d.engine.Books().Ledger.Rows(d.Context(), reflex.RowQuery{Surface: at.ID(), Limit: 1000})
	require.NoError(d, err)
	return rows
}

// One day in the office, in ten points, on one file.
func TestADayInTheOffice(t *testing.T) {
	d := &day{T: t, dir: t.TempDir()}
	d.start()
	t.Cleanup(func() { d.close() })
	ctx := t.Context()
	dm := private("lobby", "ada")
	yes := reflex.Verdict{Approved: true}

	// 1. A message in the group is answered by the clerk, in a fresh thread of it.
	o := d.said(team, "/say Good morning")
	require.Equal(t, "Good morning", o.Text())
	require.NotEqual(t, team.ID(), o.Thread)
	require.Empty(t, d.owner(team))
	require.Equal(t, []string{"reflex_awake", "run_started", "state_snapshot", "text_message_start", "text_message_content", "text_message_end",
		"messages_snapshot", "run_result", "run_ended", "reflex_asleep"}, without(heard(ctx, d.log), "run_started", 2))
	clerks := d.rows(team)[1].Bound.Conversation

	// 2. In direct messages the clerk summons the coder, who owns them from then on.
	o = d.said(dm, "/call summon {\"agent\":\"coder\",\"brief\":\"/say I write the code\"}\n/then\n/say Over to the coder")
	require.Equal(t, "I write the code", o.Text())
	require.Equal(t, []string{"awake", "route", "react", "summon", "react"}, o.Path)
	require.Equal(t, "coder", d.owner(dm))
	require.Equal(t, []string{"awake", "route", "react"}, d.said(dm, "/say Still me").Path)

	// 3. The coder asks, the program ends, and the answer given to the next one brings it back.
	o = d.said(dm, "/call deploy {\"what\":\"the site\"}\n/then\n/say It is out")
	require.Equal(t, reflex.OutcomeSuspended, o.Kind)
	batch := d.batch(o.Batch)
	d.restart()
	o, err := d.engine.Kick(ctx, verdict(batch, ada, yes))
	require.NoError(t, err)
	require.Equal(t, "It is out", o.Text())
	require.Equal(t, []string{"awake", "resume_deferred", "react"}, o.Path)
	require.Equal(t, reflex.BatchCompleted, d.batch(batch.ID).Status)
	o, err = d.engine.Kick(ctx, verdict(batch, ada, yes))
	require.NoError(t, err)
	require.Equal(t, []string{"awake", "resume_deferred"}, o.Path, "already resumed")

	// 4. A command is carried out once for its delivery.
	command := reflex.CommandSignal{
		Conversation: clerks, Agent: "clerk", Profile: ada, Address: team, Command: reflex.Command{Name: "status"}, Delivery: "c1",
	}
	before := len(d.rows(team))
	for range 2 {
		o, err = d.engine.Kick(ctx, command)
		require.NoError(t, err)
		require.Equal(t, &reflex.CommandOutcome{Status: reflex.CommandDone, Text: "The clerk is at work in team."}, o.Command)
	}
	require.Len(t, d.rows(team), before+1, "one receipt")
	command.Command.Arguments = "again"
	o, err = d.engine.Kick(ctx, command)
	require.NoError(t, err)
	require.Equal(t, reflex.CommandFailed, o.Command.Status)

	// 5. In the group the clerk takes it into direct messages; the group hears only that.
	console := d.engine.Bus().Subscribe(reflex.Filter{Threads: []string{team.ID()}})
	o = d.said(team, "/call scheme {\"brief\":\"/say Between us\",\"hint\":\"Let us go on here\"}\n/then\n/say See you there")
	require.Equal(t, "Between us", o.Text())
	require.Equal(t, dm, o.Target.Address)
	require.Equal(t, "coder", o.Decision.Agent)
	var group []string
	for e := range console.Events(ctx) {
		switch data := e.Data.(type) {
		case reflex.ReplyGiven:
			group = append(group, text(data.Output))
		case reflex.Moved:
			group = append(group, data.Action)
		}
		if _, ok := e.Data.(reflex.ReflexAsleep); ok {
			break
		}
	}
	require.Equal(t, []string{"See you there", "scheme"}, group)

	// 6. The coder moves to the desk with its history and the project; from a closed desk nothing moves.
	move := "/call teleport {\"channel\":\"desk\",\"hint\":\"Off to the desk\",\"project\":\"site\"}\n/then\n/say Here we are"
	o = d.said(dm, move)
	require.Equal(t, []string{"awake", "route", "react", "teleport", "react"}, o.Path)
	require.Equal(t, "Here we are", o.Text())
	require.Equal(t, "desk", o.Target.Address.Channel)
	require.Equal(t, "Off to the desk", text(last(d.rows(dm)).Segments))
	landed, err := d.engine.Books().Threads.Thread(ctx, o.Thread)
	require.NoError(t, err)
	require.Equal(t, "site", landed.Project)
	files, err := filepath.Glob(filepath.Join(d.dir, "workspaces", "saved", "*", "index.html"))
	require.NoError(t, err)
	require.Len(t, files, 1, "the tree came along and was saved")
	d.desk.set(func(c *terminal) { c.closed = true })
	rows := len(d.rows(dm))
	_, err = d.say(ctx, dm, move)
	require.ErrorIs(t, err, reflex.ErrNothingMoved)
	require.Len(t, d.rows(dm), rows+1, "nothing but what was asked")

	// 7. Two kicks at once: one is refused, and its message is in the next prompt.
	slow := make(chan error, 1)
	log := d.engine.Bus().Subscribe(reflex.Filter{Threads: []string{dm.ID()}})
	go func() {
		_, err := d.say(ctx, dm, "/slow 100\n/say one two three")
		slow <- err
	}()
	for e := range log.Events(ctx) {
		if _, ok := e.Data.(reflex.RunStarted); ok {
			break
		}
	}
	_, err = d.say(ctx, dm, "and this")
	require.ErrorIs(t, err, reflex.ErrBusy)
	refused := last(d.rows(dm))
	require.NoError(t, <-slow)
	require.Nil(t, d.rows(dm)[refused.ID.Seq-1].Bound)
	d.said(dm, "/say now")
	require.NotNil(t, d.rows(dm)[refused.ID.Seq-1].Bound, "it was part of the prompt")

	// 8. The guard waits alive. It is answered while its card is drawn; after a restart it waits no more.
	bobs := private("lobby", "bob")
	ask := "/call summon {\"agent\":\"guard\",\"brief\":\"/call deploy {\\\"what\\\":\\\"it\\\"}\\n/then\\n/say Done\"}\n/then\n/say The guard comes"
	d.lobby.set(func(c *terminal) {
		c.onCard = func(id string) {
			_, err := d.engine.Kick(ctx, verdict(d.batch(id), bob, yes))
			assert.NoError(t, err)
		}
	})
	require.Equal(t, "Done", d.said(bobs, ask).Text())
	asked := make(chan string, 1)
	d.lobby.set(func(c *terminal) { c.onCard = func(id string) { asked <- id } })
	_, err = d.engine.KickAsync(ctx, reflex.MessageSignal{
		Address: bobs, Messages: []reflex.Inbound{{User: "bob", Segments: reflex.Text("/call deploy {\"what\":\"it\"}\n/then\n/say Done")}},
	}, func(reflex.Outcome, error) {})
	require.NoError(t, err)
	old := d.batch(<-asked)
	require.Equal(t, reflex.Live, old.Mode)
	d.restart()
	_, err = d.engine.Kick(ctx, verdict(old, bob, yes))
	require.ErrorIs(t, err, reflex.ErrNotWaiting)

	// 9. A channel that draws nothing changes nothing.
	d.lobby.set(func(c *terminal) { c.broken = true })
	o = d.said(team, "/say Good night")
	require.Equal(t, "Good night", o.Text())
	require.Equal(t, "Good night", text(last(d.rows(team)).Segments))

	// 10. The drawing.
	golden, err := os.ReadFile("testdata/reflex.mmd")
	require.NoError(t, err)
	require.Equal(t, string(golden), d.engine.Mermaid())
}

func last[T any](list []T) T { return list[len(list)-1] }

// without removes the n-th of a kind: the agent's own start of its run follows the pass's.
func without(kinds []string, kind string, n int) []string {
	for i, k := range kinds {
		if k == kind {
			if n--; n == 0 {
				return slices.Delete(kinds, i, i+1)
			}
		}
	}
	return kinds
}

func TestAPersonTypesAndComesBackAfterARestart(t *testing.T) {
	dir := t.TempDir()
	run := func(lines ...string) string {
		cmd := programtest.Command(t, dir)
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	first := run("/say Hello", "#/say Hello all", "!status", `/call deploy {"what":"the site"}\n/then\n/say It is out`)
	for _, want := range []string{"[lobby ada] Hello\n", "[lobby team] Hello all\n", "[lobby team] The clerk is at work in team.\n", `? deploy {"what":"the site"}`} {
		require.Contains(t, first, want)
	}
	second := run("yes", "no")
	require.Contains(t, second, "[lobby ada] It is out\n")
	require.Contains(t, second, "! nothing is asked\n")
	drawing, err := programtest.Start(t, dir, "-draw")
	require.NoError(t, err)
	golden, err := os.ReadFile("testdata/reflex.mmd")
	require.NoError(t, err)
	require.Equal(t, string(golden), drawing)
}
