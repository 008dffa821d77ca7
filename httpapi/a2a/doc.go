// Package a2a connects agents with the Agent2Agent protocol, version 1.0, in both directions: an agent is served to
// clients of A2A, and an agent of others becomes tools of ours.
package a2a
