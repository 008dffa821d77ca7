package reflex

import (
	"context"
	"slices"
)

// Strategy says where turns in a channel's threads run.
type Strategy string

const (
	// FlatThreads: a thread of the platform is one piece of work, owned by who begins it.
	FlatThreads Strategy = "flat"
	// NoThreads: what happens in threads is like what happens in rooms.
	NoThreads Strategy = "none"
)

// Channel is a connection to a chat platform. One that also is a [Renderer] draws what happens
// there.
type Channel interface {
	// ID names the channel. It is data: addresses have it.
	ID() string
	// Agents are those that run there, the default first.
	Agents() []string
	Strategy() Strategy
	// OpenThread makes a thread and returns its address. A request of a key that was used returns
	// the same thread.
	OpenThread(ctx context.Context, r OpenRequest) (Address, error)
	// OpenDM returns the address of a person's direct messages, with a hint said there. It returns
	// an error if the platform does not open them.
	OpenDM(ctx context.Context, r OpenRequest) (Address, error)
}

// OpenRequest asks a channel for a place.
type OpenRequest struct {
	Key     string  // the same if the request is made again
	At      Address // the chat to open a thread in
	Profile Profile // whose direct messages, or who asked
	Hint    string  // written to be read there
}

// Recapper is a channel that says how many messages of a room an agent is told of before those
// that it is to answer, and how long each may be. Zero messages turn it off.
type Recapper interface {
	Recap() (messages, length int)
}

// Surfacer is a channel that does not have every kind of place. What it has not is refused before
// anything is asked of it. Without it a channel is asked, and says no by an error.
type Surfacer interface {
	Surfaces() (threads, directMessages bool)
}

// surfaces says which places a channel has, as far as it says so.
func surfaces(c Channel) (threads, directMessages bool) {
	if s, ok := c.(Surfacer); ok {
		return s.Surfaces()
	}
	return true, true
}

// Renderer is a channel that draws: a feeler.
type Renderer interface {
	// Draw shows an event that happened at the channel and returns the platform's id of the message
	// that it became, empty for none. Its errors are logged and heard by watchers; nothing else
	// comes of them.
	Draw(ctx context.Context, e Event) (handle string, err error)
}

// exposes reports whether a channel has an agent.
func exposes(c Channel, agent string) bool { return slices.Contains(c.Agents(), agent) }

// Users knows people.
type Users interface {
	// Profile returns the account of an id on a channel, with the user it is linked to.
	Profile(ctx context.Context, channel, id string) (Profile, error)
	// Linked returns the account that a user has on a channel; ErrProfileUnlinked if there is none.
	Linked(ctx context.Context, user, channel string) (Profile, error)
	// Visible reports whether a person may see a thread.
	Visible(ctx context.Context, p Profile, t Thread) (bool, error)
}

// Directory is [Users] in memory: a list of profiles that does not change. Who is not on it is an
// account without a user; every thread is visible to everybody, but for the direct messages of others.
type Directory []Profile

var _ Users = Directory{}

// Profile implements [Users].
func (d Directory) Profile(_ context.Context, channel, id string) (Profile, error) {
	for _, p := range d {
		if p.Channel == channel && p.ID == id {
			return p, nil
		}
	}
	return Profile{Channel: channel, ID: id}, nil
}

// Linked implements [Users].
func (d Directory) Linked(_ context.Context, user, channel string) (Profile, error) {
	for _, p := range d {
		if user != "" && p.User == user && p.Channel == channel {
			return p, nil
		}
	}
	return Profile{}, ErrProfileUnlinked
}

// Visible implements [Users].
func (d Directory) Visible(ctx context.Context, p Profile, t Thread) (bool, error) {
	if !t.Address.Private() || p.Channel == t.Address.Channel && p.ID == t.Address.User {
		return true, nil
	}
	owner, err := d.Profile(ctx, t.Address.Channel, t.Address.User)
	return err == nil && owner.User != "" && owner.User == p.User, err
}
