package agui

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/state"
)

// activity is the document that a tool shows its progress by.
type activity struct {
	id      uuid.UUID
	content json.RawMessage
}

// activitySpace is the name space of the ids of activities, which must not be those of messages.
var activitySpace = uuid.MustParse("6f1c5c52-6f0e-5d3b-9d0a-2f6a3b8f6f10")

// maxActivity bounds the document of an activity.
var maxActivity = &state.Limits{Bytes: 1 << 20}

// activity says the progress of a tool: first a snapshot, then patches of it. The document begins as {}; what
// replaces a member that is not there yet adds it. A patch that does not fit is passed on as it is, as CUSTOM.
func (t *translation) activity(f *frames, d event.ActivityDelta) {
	t.enter(f, stepTools)
	key := d.ToolCallID + "\x00" + d.ActivityType
	a, old := t.activities[key]
	if !old {
		a = &activity{uuid.NewSHA1(activitySpace, []byte(t.id.String()+key)), json.RawMessage("{}")}
	}
	patch, content, ok := fit(a.content, d.Patch)
	if !ok {
		f.begin("CUSTOM")
		f.text("name", "ACTIVITY_DELTA")
		f.value("value", map[string]any{"tool_call_id": d.ToolCallID, "activity_type": d.ActivityType, "patch": d.Patch})
		f.end()
		return
	}
	a.content = content
	if !old {
		if t.activities == nil {
			t.activities = map[string]*activity{}
		}
		t.activities[key] = a
		f.begin("ACTIVITY_SNAPSHOT")
	} else {
		f.begin("ACTIVITY_DELTA")
	}
	f.id("messageId", a.id)
	f.text("activityType", d.ActivityType)
	if old {
		f.value("patch", patch)
	} else {
		f.raw("content", a.content)
	}
	f.end()
}

// fit returns a patch such that it fits the document, and what it makes of it: an object.
func fit(document json.RawMessage, patch state.Patch) (state.Patch, json.RawMessage, bool) {
	content, err := patch.Apply(document, maxActivity)
	if err != nil {
		patch = append(state.Patch(nil), patch...)
		for i := range patch {
			if patch[i].Op == "replace" && patch[i].Path != "" {
				patch[i].Op = "add"
			}
		}
		content, err = patch.Apply(document, maxActivity)
	}
	return patch, content, err == nil && len(content) > 0 && content[0] == '{'
}
