module github.com/everstep-go/everstep/internal/powercut

go 1.26.0

require (
	github.com/everstep-go/everstep v0.0.0
	github.com/google/uuid v1.6.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/evanphx/json-patch/v5 v5.9.11 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/everstep-go/everstep => ../../
