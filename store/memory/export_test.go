package memory

// Rows counts what the store keeps, by kind.
func (s *Store) Rows() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := 0
	for _, list := range s.messages {
		messages += len(list)
	}
	return map[string]int{
		"sessions": len(s.sessions), "runs": len(s.runs), "checkpoints": len(s.checkpoints), "messages": messages,
	}
}
