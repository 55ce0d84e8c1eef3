module triton-serving/versitygw

go 1.25.0

require github.com/versity/versitygw v1.8.0
