module triton-serving/pulumi

go 1.25.11

require github.com/pulumi/pulumi/pkg/v3 v3.259.0

// The replacement of pulumi's own go.mod: replacements hold only in the main module.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
