package event_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/event"
)

func signal(kind event.SignalKind) event.Signal {
	return event.Signal{Kind: kind, Tenant: "t", ID: uuid.New()}
}

func TestSignalsReachAllWhoListenFromTheCallOn(t *testing.T) {
	t.Parallel()
	m := event.NewMemory(nil)
	m.Signal(signal(event.SessionIdle)) // nobody listens
	one, other := m.Signals(t.Context()), m.Signals(t.Context())
	want := []event.Signal{signal(event.CancelRequested), signal(event.RunUnclaimed)}
	for _, s := range want {
		m.Signal(s)
	}
	for _, signals := range []iter.Seq[event.Signal]{one, other} {
		var got []event.Signal
		for s := range signals {
			if got = append(got, s); len(got) == len(want) {
				break
			}
		}
		require.Equal(t, want, got)
	}
	m.Signal(signal(event.SessionIdle)) // nobody listens any more
	require.NoError(t, m.Close())
	for range m.Signals(t.Context()) {
		t.Fatal("a closed bus has no signals")
	}
	m.Signal(signal(event.SessionIdle))
}

func TestSignalsEndWithTheContextOrTheBus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := event.NewMemory(nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := 0
		listen := func(signals iter.Seq[event.Signal]) {
			go func() {
				for range signals {
				}
				ended++
			}()
			synctest.Wait()
		}
		listen(m.Signals(ctx))
		cancel()
		synctest.Wait()
		require.Equal(t, 1, ended)
		listen(m.Signals(t.Context()))
		require.NoError(t, m.Close())
		synctest.Wait()
		require.Equal(t, 2, ended)
	})
}

func TestAListenerThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	m := event.NewMemory(nil)
	slow := m.Signals(t.Context())
	for range 1000 {
		m.Signal(signal(event.SessionIdle))
	}
	n := 0
	require.NoError(t, m.Close())
	for range slow {
		n++
	}
	require.Positive(t, n)
	require.Less(t, n, 1000)
}
