module github.com/everstep-go/everstep

go 1.26

require (
	github.com/evanphx/json-patch/v5 v5.9.11
	github.com/google/jsonschema-go v0.4.3
	github.com/google/uuid v1.6.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
