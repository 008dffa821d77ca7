package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/everstep-go/everstep/examples/internal/offline"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/reflex"
	"github.com/everstep-go/everstep/store/sqlite"
)

// Ada is one person with an account on each channel.
var (
	ada     = reflex.Profile{Channel: "lobby", ID: "ada", Name: "Ada", User: "ada"}
	adaDesk = reflex.Profile{Channel: "desk", ID: "ada@desk", Name: "Ada", User: "ada"}
	bob     = reflex.Profile{Channel: "lobby", ID: "bob", Name: "Bob", User: "bob"}
	team    = reflex.Address{Channel: "lobby", Type: reflex.Group, Chat: "team", User: "ada", Shared: true}
)

// private is the address of a person's direct messages.
func private(channel, user string) reflex.Address {
	return reflex.Address{Channel: channel, Type: reflex.DM, Chat: user, User: user}
}

// office is everything: two channels, three agents, one file.
type office struct {
	store       *sqlite.Store
	lobby, desk *terminal
	engine      *reflex.Engine
}

// open opens the office that a directory keeps.
func open(dir string, out io.Writer) (*office, error) {
	st, err := sqlite.Open(filepath.Join(dir, "reflex.db"), nil)
	if err != nil {
		return nil, err
	}
	o := &office{store: st, lobby: newTerminal("lobby", out, "clerk", "coder", "guard"), desk: newTerminal("desk", out, "coder")}
	site := filepath.Join(dir, "site")
	if err := os.MkdirAll(site, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(site, "index.html"), []byte("<h1>Hello</h1>\n"), 0o600); err != nil {
		return nil, err
	}
	spaces, err := reflex.NewDirectories(filepath.Join(dir, "workspaces"), map[string]string{"site": site})
	if err != nil {
		return nil, err
	}
	var agents []reflex.Agent
	for _, name := range []string{"clerk", "coder", "guard"} {
		a, err := react.New(react.Config{
			Name: name, Model: offline.New(), Store: st, Tools: append(reflex.ControlTools(), reflex.AskTool(), deploy),
		})
		if err != nil {
			return nil, err
		}
		// The guard stays alive while people are asked; the others end and come back.
		agent := reflex.NewReactAgent(a, &reflex.ReactAgentOptions{Store: st, Live: name == "guard"})
		if name == "clerk" {
			agents = append(agents, clerk{agent})
		} else {
			agents = append(agents, agent)
		}
	}
	o.engine, err = reflex.New(reflex.Config{
		Store: st, Channels: []reflex.Channel{o.lobby, o.desk}, Agents: agents,
		Users: reflex.Directory{ada, adaDesk, bob}, Workspaces: spaces,
	})
	return o, err
}

// close ends what runs, to be taken up by the next start.
func (o *office) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.engine.Shutdown(ctx) // the error says that something was still running
	check(o.store.Close())
}

// say is a message of the person whose address it is.
func (o *office) say(ctx context.Context, at reflex.Address, text string) (reflex.Outcome, error) {
	return o.engine.Say(ctx, at, reflex.Inbound{User: at.User, Segments: reflex.Text(text)})
}

// verdict decides all approvals of a batch.
func verdict(b reflex.Batch, who reflex.Profile, v reflex.Verdict) reflex.BatchSignal {
	a := reflex.BatchAnswer{Batch: b.ID, Responder: who, Verdicts: map[string]reflex.Verdict{}}
	for _, action := range b.Actions {
		if action.Kind == reflex.ApprovalCall {
			a.Verdicts[action.ID] = v
		}
	}
	return reflex.BatchSignal{BatchAnswer: a}
}

type deployment struct {
	What string `json:"what"`
}

var deploy = react.NewTool("deploy", "Puts something out into the world.", func(_ context.Context, in deployment) (string, error) {
	return in.What + " is deployed", nil
}, &react.ToolOptions{Approval: true})

// clerk is an agent that takes a command.
type clerk struct{ *reflex.ReactAgent }

func (clerk) Catalogue(context.Context, reflex.Conversation) (reflex.Catalogue, error) {
	return reflex.Catalogue{Status: reflex.CommandDone, Commands: []reflex.CommandSpec{{Name: "status", Description: "how things are"}}}, nil
}

func (clerk) Command(_ context.Context, r *reflex.CommandRequest) (reflex.CommandReply, error) {
	return reflex.CommandReply{Text: "The clerk is at work in " + r.Thread.Address.Chat + "."}, nil
}
