module triton-serving/keda

go 1.26.0

// As in the go.mod of KEDA.
replace github.com/nexus-rpc/nexus-proto-annotations v0.1.0 => github.com/nexus-rpc/nexus-proto-annotations v0.1.1-0.20260629224316-835bd8d49cb4

require github.com/kedacore/keda/v2 v2.21.0
