// Package modeltest runs a mock of the providers of language models, aimock, for the tests of
// adapters. It speaks the dialects of OpenAI, Anthropic, Gemini and others and was written by
// others, so an adapter that understands it does not merely agree with itself.
//
//	mock := modeltest.Start(t)
//	reacttest.RunModel(t, func(t testing.TB, s reacttest.Scenario) react.Model {
//		if !mock.Play(t, s) {
//			return nil
//		}
//		return openai.New(&openai.Options{BaseURL: mock.URL + "/v1", APIKey: "test"})
//	})
//
// What the adapters have to do alike is tested alike: [RunFaults] with the mock; [RunFailures], [Fuzz]
// and [BenchmarkStream] without it; [RunLive] with the real provider.
//
// It needs Node and the package that npm ci installs in this module's folder. Without them tests
// are skipped, but fail where CI is set to true.
//
// # What aimock cannot do
//
//   - It gives reasoning a signature of its choice only for Anthropic; for OpenAI's Responses it
//     makes one up, and only for models that it knows to reason.
//   - Usage counts only tokens in and out; cached and reasoning tokens cannot be set.
//   - The requests that it shows for other dialects are its translation into that of Chat
//     Completions, which leaves out what it does not know. Exact bodies need a server of the test.
//   - It has no empty replies.
//   - A reply is cut between two of its chunks; broken chunks cannot be sent.
package modeltest
