module github.com/everstep-go/everstep/httpapi/a2a

go 1.26.0

require (
	github.com/a2aproject/a2a-go/v2 v2.3.1
	github.com/everstep-go/everstep v0.0.0
	github.com/google/uuid v1.6.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/evanphx/json-patch/v5 v5.9.11 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/mattn/go-sqlite3 v1.14.53 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/mod v0.33.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
)

replace github.com/everstep-go/everstep => ../../
