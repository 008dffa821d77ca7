// Package openapitest holds the OpenAPI document of package httpapi against what a server really does,
// with a validator that knows nothing of us. It is a module of its own, so that nobody who uses httpapi
// sees the validator.
package openapitest
