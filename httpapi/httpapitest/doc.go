// Package httpapitest helps to test servers that mount package httpapi: it reads their streams.
//
//	res, err := http.Post(server.URL+"/v1/runs", "application/json", body)
//	for e, err := range httpapitest.Events(res.Body) {
//		…
//	}
package httpapitest
