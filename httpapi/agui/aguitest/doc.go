// Package aguitest helps to test servers that speak AG-UI: it reads their streams, and holds them against the
// rules that the clients of others enforce.
//
//	res, err := http.Post(server.URL+"/ag-ui", "application/json", body)
//	for e, err := range aguitest.Events(res.Body, aguitest.V1) {
//		…
//	}
//
// The rules are those of @ag-ui/client: the framing, the shape of each event, and the order of events. What
// 1.0 accepts and 0.0.59 does not is an error with [V0] only.
package aguitest
