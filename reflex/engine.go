package reflex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/store"
)

// Config is what an [Engine] is made of. Store, Channels and Agents are required; zero fields mean
// the default.
type Config struct {
	// Store keeps the passes. Records keeps everything else; default: the store, which then must
	// have them.
	Store   store.Store
	Records store.Records
	// Tenant that everything belongs to. Default: graph.DefaultTenant.
	Tenant string
	// Books replace single parts of what is kept in Records.
	Books Books

	Channels []Channel
	Agents   []Agent
	// Users knows people. Default: an empty [Directory].
	Users Users
	// Workspaces are where runs work. Default: [NoWorkspaces].
	Workspaces Workspaces
	// MayAnswer says who may answer a batch. Default: the person whose turn asked, on any of their
	// accounts; everybody if that is not known.
	MayAnswer func(ctx context.Context, b Batch, responder Profile) bool

	// Capabilities returns what a known person brings to the turns of an agent, for example access to
	// their own accounts: the turn has [RunRequest.Capabilities] then, also one that goes on with
	// answers of somebody else. It is asked once a turn has its place and before anything is said or
	// a command is accepted; an error ends the turn there. Default: nothing.
	Capabilities func(ctx context.Context, person Profile, agent string) ([]string, error)

	// OnBusy says what [Engine.Say] does on a surface that has a pass under way. Default: [Refuse].
	OnBusy BusyPolicy
	// Bus carries the events. Default: one of the engine's own.
	Bus *Bus
	// MaxMoves is how many hand-overs and moves a pass may make. Default: 8.
	MaxMoves int
	// MaxBrief is how many bytes a brief may have. Default: 32 KiB.
	MaxBrief int
	// MaxPending is how many messages that were said since the last prompt the next one has: the last
	// ones. Default: 200.
	MaxPending int
	// BatchLife is how long a batch can be answered. Default: for ever.
	BatchLife time.Duration
	// DrawTimeout is how long a channel may take to draw an event. Default: 30 s.
	DrawTimeout time.Duration
	// DrawWait is how long a pass stays awake at its end until all that it said is drawn, so that
	// whoever waits for it finds it there. A channel that takes longer goes on by itself. Default: it
	// does not wait.
	DrawWait time.Duration
	// CatalogueTimeout is how long a command waits for the list of commands. Default: 10 s.
	CatalogueTimeout time.Duration
	// Now tells the time. Default: time.Now.
	Now func() time.Time
	// NewID makes the ids of passes and batches, each another one. Default: those of uuid.NewV7,
	// which are in the order of time.
	NewID func() uuid.UUID
	// Signals let the processes on one store know at once what they would find out by looking: that a
	// pass is cancelled, or that a live batch has its answers. A bus of package event that spans
	// processes is one. Default: they look, for cancels with every heartbeat, for answers every second.
	Signals event.Signaler
	// Observer, Logger, Lease and Heartbeat are as in graph.RunnerOptions.
	Observer         graph.Observer
	Logger           *slog.Logger
	Lease, Heartbeat time.Duration
}

// Engine routes signals between agents and channels: each kick is a durable pass of one graph, a reflex. It
// is safe for concurrent use. End it with [Engine.Shutdown].
type Engine struct {
	config   Config
	books    Books
	life     func(ctx context.Context, kick uuid.UUID) (PassLife, error)
	bus      *Bus
	channels map[string]Channel
	agents   map[string]Agent
	graph    *graph.Graph[State]
	runner   *graph.Runner[State]
	drawers  []*drawer

	mu      sync.Mutex // guards what follows
	passes  map[uuid.UUID]*pass
	awake   map[string]uuid.UUID     // passes by the surface they were asked on, of this process
	queued  map[string]MessageSignal // by surface: what its next pass is for
	waiters map[string]chan Batch    // runs of this process, by the live batch that they wait for
	looking chan struct{}            // closed when none waits any more; nil if none does
	kicks   sync.WaitGroup           // those that nobody waits for
}

// New makes an engine. It reports everything that is wrong with the configuration at once.
func New(c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: c, bus: c.Bus, channels: map[string]Channel{}, agents: map[string]Agent{},
		passes: map[uuid.UUID]*pass{}, awake: map[string]uuid.UUID{}, queued: map[string]MessageSignal{}, waiters: map[string]chan Batch{},
	}
	e.life = lifeIn(c.Store, c.Tenant, c.Now)
	e.books = c.Books.or(NewBooks(c.Records, c.Tenant, e.life, c.Now))
	if err := e.connect(); err != nil {
		return nil, err
	}
	if e.graph, err = newGraph(e); err != nil {
		return nil, err
	}
	var bus event.Bus
	if c.Signals != nil {
		bus = signalled{event.NewMemory(nil), c.Signals}
	}
	e.runner, err = graph.NewRunner(e.graph, c.Store, &graph.RunnerOptions[State]{
		Bus:      bus,
		Observer: graph.ObserverFunc(e.observe), Logger: c.Logger, Lease: c.Lease, Heartbeat: c.Heartbeat,
		MaxSteps: 16 + 4*c.MaxMoves,
	})
	if err != nil {
		return nil, err
	}
	e.drawers = newDrawers(e)
	return e, nil
}

// signalled is a bus for the runs of this process whose signals are for all of them.
type signalled struct {
	event.Bus
	event.Signaler
}

func (c Config) withDefaults() (Config, error) {
	var faults []error
	if c.Store == nil {
		faults = append(faults, errors.New("reflex: Config.Store is nil: passes are kept there"))
	}
	if c.Records == nil && c.Store != nil {
		records, ok := c.Store.(store.Records)
		if !ok {
			faults = append(faults, errors.New("reflex: Config.Store has no records: set Config.Records"))
		}
		c.Records = records
	}
	if len(c.Channels) == 0 || len(c.Agents) == 0 {
		faults = append(faults, errors.New("reflex: Config needs Channels and Agents"))
	}
	if min(c.MaxMoves, c.MaxBrief, c.MaxPending) < 0 || min(c.BatchLife, c.CatalogueTimeout, c.DrawTimeout, c.DrawWait) < 0 {
		faults = append(faults, errors.New("reflex: Config: limits must not be negative"))
	}
	if c.OnBusy != "" && c.OnBusy != Refuse && c.OnBusy != FollowUp {
		faults = append(faults, fmt.Errorf("reflex: Config.OnBusy %q: use Refuse or FollowUp", c.OnBusy))
	}
	c.Tenant = cmp.Or(c.Tenant, graph.DefaultTenant)
	if c.Users == nil {
		c.Users = Directory{}
	}
	if c.Workspaces == nil {
		c.Workspaces = NoWorkspaces{}
	}
	if c.MayAnswer == nil {
		c.MayAnswer = mayAnswer
	}
	if c.Bus == nil {
		c.Bus = NewBus(0)
	}
	c.MaxMoves = cmp.Or(c.MaxMoves, 8)
	c.MaxBrief = cmp.Or(c.MaxBrief, 32<<10)
	c.MaxPending = cmp.Or(c.MaxPending, 200)
	c.CatalogueTimeout = cmp.Or(c.CatalogueTimeout, 10*time.Second)
	c.DrawTimeout = cmp.Or(c.DrawTimeout, 30*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(faults...)
}

// mayAnswer lets the person answer whose turn it is.
func mayAnswer(_ context.Context, b Batch, responder Profile) bool {
	return b.Asker == nil || b.Asker.Channel == responder.Channel && b.Asker.ID == responder.ID ||
		b.Asker.User != "" && b.Asker.User == responder.User
}

// connect registers the channels and agents.
func (e *Engine) connect() error {
	var faults []error
	for _, c := range e.config.Channels {
		if _, ok := e.channels[c.ID()]; ok || c.ID() == "" || c.ID() == NativeChannel {
			faults = append(faults, fmt.Errorf("reflex: channel %q: the id is empty, taken or reserved", c.ID()))
		}
		e.channels[c.ID()] = c
	}
	for _, a := range e.config.Agents {
		if _, ok := e.agents[a.ID()]; ok || a.ID() == "" {
			faults = append(faults, fmt.Errorf("reflex: agent %q: the id is empty or taken", a.ID()))
		}
		e.agents[a.ID()] = a
	}
	return errors.Join(faults...)
}

// Bus returns the bus that carries the engine's events.
func (e *Engine) Bus() *Bus { return e.bus }

// Books returns what the engine keeps.
func (e *Engine) Books() Books { return e.books }

// Graph returns the engine's graph.
func (e *Engine) Graph() *graph.Graph[State] { return e.graph }

func (e *Engine) channel(id string) (Channel, error) {
	if c, ok := e.channels[id]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownChannel, id)
}

func (e *Engine) agent(id string) (Agent, error) {
	if a, ok := e.agents[id]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownAgent, id)
}

// resolve returns the agent and the model that run on a channel.
func (e *Engine) resolve(channel, agent, model string) (Agent, string, error) {
	c, err := e.channel(channel)
	if err != nil {
		return nil, "", err
	}
	a, err := e.agent(agent)
	if err != nil {
		return nil, "", err
	}
	if !exposes(c, agent) {
		return nil, "", fmt.Errorf("%w: %s on %s", ErrAgentNotOnChannel, agent, channel)
	}
	model, err = resolveModel(a, model)
	return a, model, err
}

// Route is an agent that may run on a channel, with the models that it serves, the default first.
type Route struct {
	Agent  string   `json:"agent"`
	Models []string `json:"models"`
}

// Routes returns who may run on a channel, in the channel's order: the agents that it exposes, are
// connected and serve a model.
func (e *Engine) Routes(channel string) ([]Route, error) {
	c, err := e.channel(channel)
	if err != nil {
		return nil, err
	}
	var routes []Route
	for _, id := range c.Agents() {
		a, ok := e.agents[id]
		if !ok || slices.ContainsFunc(routes, func(r Route) bool { return r.Agent == id }) {
			continue
		}
		if models := a.Models(); len(models) > 0 {
			routes = append(routes, Route{Agent: id, Models: models})
		}
	}
	return routes, nil
}

// Serve takes up what a dead process left, at once and then with every heartbeat, until ctx ends.
// Passes go on from their last checkpoint; those whose agent or command ran end with
// [ErrInterrupted], and are heard to. It also runs the Serve of agents that have one.
func (e *Engine) Serve(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, a := range e.config.Agents {
		if s, ok := a.(interface{ Serve(context.Context) error }); ok {
			all.Go(func() {
				if err := s.Serve(ctx); err != nil && ctx.Err() == nil {
					e.config.Logger.ErrorContext(ctx, "agent stopped serving", "agent", a.ID(), "error", err)
				}
			})
		}
	}
	all.Go(func() {
		tick := time.NewTicker(recoverEvery)
		defer tick.Stop()
		for {
			if err := e.Recover(ctx); err != nil && ctx.Err() == nil {
				e.config.Logger.ErrorContext(ctx, "batches not recovered", "error", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return e.runner.Serve(ctx)
}

// recoverEvery is the time between two looks at the batches that are open.
const recoverEvery = time.Minute

// Recover brings batches in order whose process died: those that were being resumed can be resumed
// again, live ones and those whose time is over expire. [Engine.Serve] does it at once and then every
// minute.
func (e *Engine) Recover(ctx context.Context) error {
	open, err := e.books.Batches.Open(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range open {
		switch {
		case b.Status == BatchResuming:
			life, err := e.life(ctx, b.Resumer)
			if err == nil && !life.alive() {
				err = e.books.Batches.Release(ctx, b.ID, b.Resumer)
			}
			errs = append(errs, err)
		case b.Mode == Live && !e.waits(b.ID):
			life, err := e.life(ctx, b.Kick)
			if err == nil && !life.alive() {
				err = e.expire(ctx, b.ID)
			}
			errs = append(errs, err)
		case b.Status == BatchPending && b.expiredAt(e.config.Now()):
			errs = append(errs, e.expire(ctx, b.ID))
		}
	}
	return errors.Join(errs...)
}

// expire ends a pending batch and says so, for its cards to be closed.
func (e *Engine) expire(ctx context.Context, id string) error {
	b, expired, err := e.books.Batches.Expire(ctx, id)
	if err != nil || !expired {
		return err
	}
	t, err := e.books.Threads.Thread(ctx, b.Thread)
	if err != nil {
		return err
	}
	at := spotOf(t)
	e.bus.Publish(Event{
		Time: e.config.Now(), Kick: b.Kick, At: at, AskedOn: at,
		Data: BatchAnswered{Batch: b.ID, Status: b.Status, Actions: b.Actions},
	})
	return nil
}

// Publish says something of the program's own at a place. What is meant for one person, for example
// a one-time code, is private: it is heard only there, and refused with [ErrNotPrivate] unless the
// place is that person's direct messages.
func (e *Engine) Publish(at Spot, private bool, x Extension) error {
	if private && !at.Address.Private() {
		return fmt.Errorf("%w: %s", ErrNotPrivate, at.Surface)
	}
	e.bus.Publish(Event{Time: e.config.Now(), At: at, AskedOn: at, Private: private, Data: x})
	return nil
}

// Shutdown ends the engine: no pass begins any more, and those under way may go on until ctx ends;
// then they are stopped, to be taken up after the restart. What was said is drawn before it returns, for
// which channels that are slow have [Config.DrawTimeout] more.
func (e *Engine) Shutdown(ctx context.Context) error {
	err := e.runner.Shutdown(ctx)
	e.kicks.Wait()
	for _, d := range e.drawers {
		d.close()
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.DrawTimeout)
	defer cancel()
	for _, d := range e.drawers {
		d.wait(late)
	}
	return err
}
