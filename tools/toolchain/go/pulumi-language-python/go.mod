module triton-serving/pulumi-language-python

go 1.24.1

// Of the same commit as go/pulumi-language-nodejs.
require (
	github.com/pulumi/pulumi/sdk/go/pulumi-language-go/v3 v3.0.0-20250417110128-49fb14839a5a
	github.com/pulumi/pulumi/sdk/python/cmd/pulumi-language-python/v3 v3.0.0-20250417110128-49fb14839a5a
)

// What it compiles against: newer ones lack functions that it calls.
require (
	github.com/pulumi/pulumi/pkg/v3 v3.163.0
	github.com/pulumi/pulumi/sdk/v3 v3.163.0
)

// The replacement of pulumi's own go.mod: replacements hold only in the main module.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
