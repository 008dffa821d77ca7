// Package redisserver runs a Redis server of its own, from the program that is installed: for
// tests that need a real one and must leave nothing behind.
//
//	s, err := redisserver.Start(ctx)
//	if err != nil {
//		return err // redisserver.ErrMissing if Redis is not installed
//	}
//	defer s.Stop()
//	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
//
// The server listens on a free port of 127.0.0.1 and keeps its data in memory: what was there is
// gone when it is started again. On Linux it dies with the program that started it.
package redisserver
