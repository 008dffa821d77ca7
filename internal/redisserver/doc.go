// Package redisserver runs a Redis server of its own, from the program that is installed: for tests
// and examples that need a real one and must leave nothing behind.
//
//	s, err := redisserver.Start(ctx)
//	if err != nil {
//		return err // redisserver.ErrMissing if Redis is not installed
//	}
//	defer s.Stop()
//	addr := s.Addr()
//
// The server keeps nothing on disk: when it is restarted, it is empty. On Linux it dies with the program
// that started it.
package redisserver
