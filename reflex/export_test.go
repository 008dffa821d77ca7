package reflex

// Tap has every event seen before anybody hears it.
func (b *Bus) Tap(f func(Event)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tap = f
}

// Waits reports whether a run waits for a batch in this process.
func (e *Engine) Waits(batch string) bool { return e.waits(batch) }

// Mermaid draws moves.
var Mermaid = mermaid
