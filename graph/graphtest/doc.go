// Package graphtest helps to test graphs and what runs them: which edges the tests have taken
// ([Coverage]), what happens when the store fails or the process dies at any one of its calls
// ([Faulty]), and a clock that only moves when told ([Clock]).
//
// Nodes need no help: outside a run they are called like any func, with graph.WithReply for the
// questions that they ask.
package graphtest
