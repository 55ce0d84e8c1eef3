module triton-serving/pulumi-language-nodejs

go 1.24.1

// The newest commit of the language host that is a module by itself; the pulumi of go/pulumi talks to it.
require github.com/pulumi/pulumi/sdk/nodejs/cmd/pulumi-language-nodejs/v3 v3.0.0-20250417110128-49fb14839a5a

// What it compiles against: newer ones lack functions that it calls.
require (
	github.com/pulumi/pulumi/pkg/v3 v3.163.0
	github.com/pulumi/pulumi/sdk/v3 v3.163.0
)

// The replacement of pulumi's own go.mod: replacements hold only in the main module.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
