package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
	"github.com/everstep-go/everstep/store/memory"
)

// A breakage is a store with one defect, and the cases that notice it, among others.
type breakage struct {
	defect   string
	install  func(s *broken)
	noticers []string
}

// broken is a sound store with some of its methods replaced.
type broken struct {
	store.Store // the sound one
	brokenRecords
	opts Options

	begin         func(context.Context, *store.Begin) (*store.Begun, error)
	promote       func(context.Context, store.Fence) (bool, error)
	claim         func(context.Context, *store.Claim) ([]store.Run, error)
	renew         func(context.Context, *store.Renew) (*store.Renewed, error)
	commit        func(context.Context, *store.Commit) (*store.Committed, error)
	saveTask      func(context.Context, *store.SaveTask) error
	requestCancel func(context.Context, string, uuid.UUID) (*store.Run, error)
	release       func(context.Context, store.Fence) error
	load          func(context.Context, *store.Load) (*store.Position, error)
	createSession func(context.Context, string, uuid.UUID) (*store.Session, error)
	deleteSession func(context.Context, string, uuid.UUID) error
	createMessage func(context.Context, string, *store.Message) (*store.Message, error)
	deleteMessage func(context.Context, string, uuid.UUID) error
	prune         func(context.Context, *store.Prune) (int, error)
	backlog       func(context.Context, []string) (*store.Backlog, error)
	session       func(context.Context, string, uuid.UUID) (*store.Session, error)
	run           func(context.Context, string, uuid.UUID) (*store.Run, error)
	checkpoint    func(context.Context, string, uuid.UUID) (*checkpoint.Checkpoint, error)
	message       func(context.Context, string, uuid.UUID) (*store.Message, error)
	sessions      func(context.Context, *store.SessionQuery) (*store.Page[store.Session], error)
	runs          func(context.Context, *store.RunQuery) (*store.Page[store.Run], error)
	checkpoints   func(context.Context, *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error)
	messages      func(context.Context, *store.MessageQuery) (*store.Page[store.Message], error)
	close         func() error
	reopen        func() store.Store
	rows          func() map[string]int
}

func newBroken(opts Options, install func(*broken)) *broken {
	sound := memory.New(&memory.Options{Now: opts.Now})
	s := &broken{
		Store: sound, opts: opts,
		brokenRecords: brokenRecords{record: sound.Record, listRecords: sound.ListRecords, writeRecords: sound.WriteRecords},
		begin:         sound.Begin, promote: sound.Promote, claim: sound.Claim, renew: sound.Renew,
		commit: sound.Commit, saveTask: sound.SaveTask, requestCancel: sound.RequestCancel, release: sound.Release,
		load: sound.Load, createSession: sound.CreateSession, deleteSession: sound.DeleteSession,
		createMessage: sound.CreateMessage, deleteMessage: sound.DeleteMessage, prune: sound.Prune, backlog: sound.Backlog,
		session: sound.Session, run: sound.Run, checkpoint: sound.Checkpoint, message: sound.Message,
		sessions: sound.Sessions, runs: sound.Runs, checkpoints: sound.Checkpoints, messages: sound.Messages,
		close: sound.Close,
	}
	s.reopen = func() store.Store { return s }
	if install != nil {
		install(s)
	}
	return s
}

// harness opens broken stores.
func harness(install func(*broken), rows bool) Harness {
	h := Harness{
		Open: func(_ testing.TB, opts Options) store.Store { return newBroken(opts, install) },
		Reopen: func(_ testing.TB, s store.Store, _ Options) store.Store {
			return s.(*broken).reopen()
		},
	}
	if rows {
		h.Rows = func(_ testing.TB, s store.Store) map[string]int { return s.(*broken).rows() }
	}
	return h
}

func (s *broken) Begin(ctx context.Context, b *store.Begin) (*store.Begun, error) {
	return s.begin(ctx, b)
}

func (s *broken) Promote(ctx context.Context, f store.Fence) (bool, error) { return s.promote(ctx, f) }

func (s *broken) Claim(ctx context.Context, c *store.Claim) ([]store.Run, error) {
	return s.claim(ctx, c)
}

func (s *broken) Renew(ctx context.Context, r *store.Renew) (*store.Renewed, error) {
	return s.renew(ctx, r)
}

func (s *broken) Commit(ctx context.Context, c *store.Commit) (*store.Committed, error) {
	return s.commit(ctx, c)
}

func (s *broken) SaveTask(ctx context.Context, t *store.SaveTask) error { return s.saveTask(ctx, t) }

func (s *broken) RequestCancel(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	return s.requestCancel(ctx, tenant, id)
}

func (s *broken) Release(ctx context.Context, f store.Fence) error { return s.release(ctx, f) }

func (s *broken) Load(ctx context.Context, l *store.Load) (*store.Position, error) {
	return s.load(ctx, l)
}

func (s *broken) CreateSession(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	return s.createSession(ctx, tenant, id)
}

func (s *broken) DeleteSession(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.deleteSession(ctx, tenant, id)
}

func (s *broken) CreateMessage(ctx context.Context, tenant string, m *store.Message) (*store.Message, error) {
	return s.createMessage(ctx, tenant, m)
}

func (s *broken) DeleteMessage(ctx context.Context, tenant string, id uuid.UUID) error {
	return s.deleteMessage(ctx, tenant, id)
}

func (s *broken) Prune(ctx context.Context, p *store.Prune) (int, error) { return s.prune(ctx, p) }

func (s *broken) Backlog(ctx context.Context, graphs []string) (*store.Backlog, error) {
	return s.backlog(ctx, graphs)
}

func (s *broken) Session(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
	return s.session(ctx, tenant, id)
}

func (s *broken) Run(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
	return s.run(ctx, tenant, id)
}

func (s *broken) Checkpoint(ctx context.Context, tenant string, id uuid.UUID) (*checkpoint.Checkpoint, error) {
	return s.checkpoint(ctx, tenant, id)
}

func (s *broken) Message(ctx context.Context, tenant string, id uuid.UUID) (*store.Message, error) {
	return s.message(ctx, tenant, id)
}

func (s *broken) Sessions(ctx context.Context, q *store.SessionQuery) (*store.Page[store.Session], error) {
	return s.sessions(ctx, q)
}

func (s *broken) Runs(ctx context.Context, q *store.RunQuery) (*store.Page[store.Run], error) {
	return s.runs(ctx, q)
}

func (s *broken) Checkpoints(ctx context.Context, q *store.CheckpointQuery) (*store.Page[checkpoint.Checkpoint], error) {
	return s.checkpoints(ctx, q)
}

func (s *broken) Messages(ctx context.Context, q *store.MessageQuery) (*store.Page[store.Message], error) {
	return s.messages(ctx, q)
}

func (s *broken) Close() error { return s.close() }

// The filters below change what a sound method returns.

func (s *broken) changeRun(change func(*store.Run)) {
	s.run = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Run, error) {
		r, err := s.Store.Run(ctx, tenant, id)
		if err == nil {
			change(r)
		}
		return r, err
	}
}

func (s *broken) changeSession(change func(*store.Session)) {
	s.session = func(ctx context.Context, tenant string, id uuid.UUID) (*store.Session, error) {
		ses, err := s.Store.Session(ctx, tenant, id)
		if err == nil {
			change(ses)
		}
		return ses, err
	}
}

func (s *broken) changeLoad(change func(*store.Load, *store.Position)) {
	s.load = func(ctx context.Context, l *store.Load) (*store.Position, error) {
		p, err := s.Store.Load(ctx, l)
		if err == nil {
			change(l, p)
		}
		return p, err
	}
}

// changeBegin and changeCommit change what a sound method is given.

func (s *broken) changeBegin(change func(*store.Begin)) {
	s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
		c := *b
		change(&c)
		return s.Store.Begin(ctx, &c)
	}
}

func (s *broken) changeCommit(change func(*store.Commit)) {
	s.commit = func(ctx context.Context, c *store.Commit) (*store.Committed, error) {
		d := *c
		change(&d)
		return s.Store.Commit(ctx, &d)
	}
}

// changeBegun changes what Begin returns.
func (s *broken) changeBegun(change func(*store.Begin, *store.Begun)) {
	s.begin = func(ctx context.Context, b *store.Begin) (*store.Begun, error) {
		begun, err := s.Store.Begin(ctx, b)
		if err == nil {
			change(b, begun)
		}
		return begun, err
	}
}

// holder returns the run's record as it is, whoever asks.
func (s *broken) holder(tenant string, id uuid.UUID) store.Run {
	r, err := s.Store.Run(context.Background(), tenant, id)
	if err != nil {
		return store.Run{}
	}
	return *r
}

// ignore returns err unless it is one of those that the defect passes over.
func ignore(err error, passed ...error) error {
	for _, p := range passed {
		if errors.Is(err, p) {
			return nil
		}
	}
	return err
}

func allBreakages() []breakage {
	var all []breakage
	for _, list := range [][]breakage{beginBreakages, headBreakages, writeBreakages, contentBreakages, ownerBreakages, readBreakages, sessionBreakages, recordBreakages} {
		all = append(all, list...)
	}
	return all
}

func TestASoundStorePassesEveryCase(t *testing.T) {
	t.Parallel()
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			failed, text := record(t, c, harness(nil, false))
			require.False(t, failed, text)
		})
	}
}

func TestEachDefectIsNoticed(t *testing.T) {
	t.Parallel()
	cases := map[string]scenario{}
	for _, c := range scenarios() {
		cases[c.name] = c
	}
	for _, x := range allBreakages() {
		t.Run(x.defect, func(t *testing.T) {
			t.Parallel()
			for _, name := range x.noticers {
				c, ok := cases[name]
				require.True(t, ok, "there is no case %s", name)
				failed, text := record(t, c, harness(x.install, x.defect == leavesRows))
				require.True(t, failed, "%s does not notice", name)
				require.NotEmpty(t, text, "%s says nothing", name)
			}
		})
	}
}

func TestEachCaseNoticesADefect(t *testing.T) {
	t.Parallel()
	noticed := map[string]bool{}
	for _, x := range allBreakages() {
		for _, name := range x.noticers {
			noticed[name] = true
		}
	}
	for _, c := range scenarios() {
		require.True(t, noticed[c.name], "no defect is noticed by %s", c.name)
	}
}

func TestEachCaseHasItsOwnNameAndSentence(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range scenarios() {
		require.NotEmpty(t, c.name)
		require.Regexp(t, `^[A-Z].*\.$`, c.defends)
		require.False(t, seen[c.name] || seen[c.defends], c.name)
		seen[c.name], seen[c.defends] = true, true
	}
}
