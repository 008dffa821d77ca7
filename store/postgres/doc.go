// Package postgres is a store.
package postgres
