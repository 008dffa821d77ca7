// Package sse writes server-sent events, for the handlers of an agent.
//
//	s := sse.New(w, sse.Options{KeepAlive: 15 * time.Second, Gone: cancel})
//	s.Open()
//	defer s.Close()
//	err := s.Send(func(b []byte) ([]byte, error) { return append(b, "data: 1\n\n"...), nil })
package sse
