module triton-serving/kubeconform

go 1.26.0

require github.com/yannh/kubeconform v0.8.0
