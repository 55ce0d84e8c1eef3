module triton-serving/promtool

go 1.25.8

require github.com/prometheus/prometheus v0.314.0
