module triton-serving/pulumi-language-yaml

go 1.25.11

// The newest language hosts that are modules by themselves, with the packages of go/pulumi.
require (
	github.com/pulumi/pulumi-dotnet/pulumi-language-dotnet/v3 v3.110.0
	github.com/pulumi/pulumi-java v1.34.0
	github.com/pulumi/pulumi-yaml v1.38.1
	github.com/pulumi/pulumi/pkg/v3 v3.259.0
)

// The replacement of pulumi's own go.mod: replacements hold only in the main module.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
