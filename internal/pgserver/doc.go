// Package pgserver runs a PostgreSQL server of its own, from the programs that are installed:
// for tests and examples that need a real one and must leave nothing behind.
//
//	s, err := pgserver.Start(ctx, nil)
//	if err != nil {
//		return err // pgserver.ErrMissing if PostgreSQL is not installed
//	}
//	defer s.Stop()
//	dsn := s.DSN("postgres")
//
// The server has a temporary folder with its data and its socket, and trusts whoever can reach
// it. PostgreSQL refuses to run as root; for root it runs as postgres or nobody. On
// Linux it dies with the program that started it, also if that is killed; only the folder is
// left over then.
package pgserver
