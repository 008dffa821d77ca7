package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/message"
)

// command is one line of a script.
type command struct{ name, text string }

var commands = []string{"/then", "/think", "/say", "/call", "/loop", "/slow", "/error", "/flaky"}

// parse returns the stages of a script, nil if the text has no command.
func parse(text string) [][]command {
	stages := [][]command{nil}
	script := false
	for line := range strings.SplitSeq(text, "\n") {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		switch {
		case !slices.Contains(commands, name):
			continue
		case name == "/then":
			stages = append(stages, nil)
		default:
			last := len(stages) - 1
			stages[last] = append(stages[last], command{name, text})
		}
		script = true
	}
	if !script {
		return nil
	}
	return stages
}

// said returns the text blocks of a message, one below the other.
func said(m *message.User) string {
	var blocks []string
	for _, b := range m.Content {
		if t, ok := b.(message.Text); ok {
			blocks = append(blocks, t.Value)
		}
	}
	return strings.Join(blocks, "\n")
}

// reply returns what the conversation asks for next.
func (c *conversation) reply() []command {
	text := ""
	if c.user != nil {
		text = said(c.user)
	}
	stages := parse(text)
	if stages == nil && c.rounds == 0 {
		return plain(text)
	}
	var reply []command
	for i, stage := range stages[:min(len(stages), c.rounds+1)] {
		for _, cmd := range stage {
			if i == c.rounds || cmd.name == "/loop" {
				reply = append(reply, cmd)
			}
		}
	}
	if reply == nil && c.rounds >= len(stages) {
		return []command{{"/say", c.listing()}}
	}
	return reply
}

const numberPattern = `(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)`

var (
	plus    = regexp.MustCompile(`(?i)\bwhat is ` + numberPattern + ` plus ` + numberPattern + `\b`)
	weather = regexp.MustCompile(`(?i)\bweather in ([^\n?!,;]*[^\n?!,;. ])`)
)

// plain answers a message that is no script.
func plain(text string) []command {
	if m := plus.FindStringSubmatch(text); m != nil {
		return []command{{"/call", fmt.Sprintf(`add {"a":%s,"b":%s}`, m[1], m[2])}}
	}
	if m := weather.FindStringSubmatch(text); m != nil {
		return []command{{"/call", fmt.Sprintf(`weather {"city":%s}`, quote(m[1]))}}
	}
	return []command{{"/say", "You said: " + text}}
}
