// Package everstep is the root of a library for durable agent graphs: agents whose every step
// is kept, so that a crash, a deploy or a client that goes away loses nothing, and any moment of
// any conversation can be run again from there.
//
// It holds no code. Begin with package react for an agent with tools, or with package graph for
// a graph of your own:
//
//	message     what people, models and tools say to each other
//	state       JSON documents and patches on them
//	event       what happens in a run, as it happens
//	checkpoint  what a run leaves behind, and how a state is kept
//	store       where it is all kept: store/memory, store/sqlite, store/postgres, and the suite for drivers
//	graph       typed nodes and edges, run durably
//	react       an agent: a model and its tools, on a graph
//	reflex      several agents on several chat channels, on a graph
package everstep
