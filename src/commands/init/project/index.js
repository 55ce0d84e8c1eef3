// The Pulumi program: everything that the stack files describe.
module.exports = require('triton-serving');
