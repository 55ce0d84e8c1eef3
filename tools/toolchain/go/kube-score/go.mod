module triton-serving/kube-score

go 1.25.0

require github.com/zegl/kube-score v1.20.0
