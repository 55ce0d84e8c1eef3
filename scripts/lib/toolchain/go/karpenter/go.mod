module triton-serving/karpenter

go 1.26.4

require sigs.k8s.io/karpenter v1.13.0
