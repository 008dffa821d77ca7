package a2a

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/everstep-go/everstep/internal/wire"
)

// WellKnown is the path at which clients look for the card of the agent that a host has.
const WellKnown = "/.well-known/agent-card.json"

// card is the agent card as it is served.
type card struct {
	text    []byte
	etag    string
	maxAge  int // seconds
	streams bool
	pushes  bool
}

// newCard makes the card.
func (s *Server) newCard() (card, error) {
	agent, o := s.agent, &s.opts
	c := &sdk.AgentCard{
		Name: agent.Name(), Description: agent.Description(), Version: version(),
		SupportedInterfaces: []*sdk.AgentInterface{
			sdk.NewAgentInterface(o.URL+"/", sdk.TransportProtocolJSONRPC), // a mux would redirect it without the slash,
			sdk.NewAgentInterface(o.URL, sdk.TransportProtocolHTTPJSON),
		},
		Capabilities: sdk.AgentCapabilities{
			Streaming: true, PushNotifications: !o.Push.Disabled, ExtendedAgentCard: o.ExtendedCard != nil,
			Extensions: []sdk.AgentExtension{{
				URI: ToolsExtension, Description: "Clients may bring tools of their own, and are asked to call them.",
			}},
		},
		DefaultInputModes:  o.InputModes,
		DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills: []sdk.AgentSkill{{
			ID: "react", Name: agent.Name(), Description: agent.Description(), Tags: []string{"react"},
		}},
	}
	if c.Description == "" {
		c.Description, c.Skills[0].Description = c.Name, c.Name // both are required
	}
	if o.Card != nil {
		o.Card(c)
	}
	text, err := wire.Marshal(c)
	if err != nil {
		return card{}, fmt.Errorf("a2a: agent card: %w", err)
	}
	sum := sha256.Sum256(text)
	return card{
		text: text, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, maxAge: int(o.CardMaxAge.Seconds()),
		streams: c.Capabilities.Streaming, pushes: c.Capabilities.PushNotifications,
	}, nil
}

// ServeHTTP serves the card to everybody.
func (c *card) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	header.Set("Access-Control-Allow-Origin", "*") // it is public
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", c.maxAge))
	header.Set("ETag", c.etag)
	if matches(r.Header.Values("If-None-Match"), c.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodGet {
		_, _ = w.Write(c.text) // the client may be gone
	}
}

// matches is the weak comparison of RFC 9110, section 13.1.2.
func matches(fields []string, etag string) bool {
	for _, field := range fields {
		for tag := range strings.SplitSeq(field, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// version returns the version of the program that has the agent.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// extendedCard returns the card for clients that are authenticated.
func (s *Server) extendedCard(r *http.Request) (*sdk.AgentCard, error) {
	if s.opts.ExtendedCard == nil {
		return nil, fault(sdk.ErrUnsupportedOperation, "the agent has no extended card")
	}
	card, err := s.opts.ExtendedCard(r)
	if err != nil {
		s.opts.Logger.InfoContext(r.Context(), "a2a: extended card refused", "err", err)
		return nil, fault(sdk.ErrUnauthenticated, "the extended card is for clients that are authenticated")
	}
	return card, nil
}
