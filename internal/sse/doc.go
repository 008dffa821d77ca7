// Package sse writes server-sent events to one client: flushed as they come, kept alive while nothing
// happens, and given up when the client takes nothing.
//
//	s := sse.Open(w, sse.Options{KeepAlive: 15 * time.Second, WriteTimeout: 30 * time.Second, Gone: cancel})
//	defer s.Close()
//	err := s.Send(func(b []byte) ([]byte, error) { return append(b, "data: 1\n\n"...), nil })
package sse
