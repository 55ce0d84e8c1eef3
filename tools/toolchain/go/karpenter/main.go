// Karpenter with the cloud provider that makes KWOK's nodes, and with what that one lacks: capacity that is out. The
// file named by OUT_OF_CAPACITY has the capacity types ("spot") that no machine can be had of at the moment.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// scarce learns as AWS's provider does: nobody knows that capacity is out before a machine was asked for in vain. Then
// the offerings are unavailable until it is there again.
type scarce struct {
	*kwok.CloudProvider
	types []*cloudprovider.InstanceType
	file  string
}

func (s scarce) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	out := s.out()
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	learned := false
	for _, instanceType := range s.types {
		if requirements.Get("node.kubernetes.io/instance-type").Has(instanceType.Name) {
			for _, offering := range instanceType.Offerings.Available().Compatible(requirements) {
				if out[offering.CapacityType()] {
					offering.Available, learned = false, true
				}
			}
		}
	}
	if learned {
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no machine for %s", claim.Name))
	}
	return s.CloudProvider.Create(ctx, claim)
}

func (s scarce) GetInstanceTypes(ctx context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	out := s.out()
	for _, instanceType := range s.types {
		for _, offering := range instanceType.Offerings {
			if !out[offering.CapacityType()] {
				offering.Available = true
			}
		}
	}
	return s.CloudProvider.GetInstanceTypes(ctx, pool)
}

func (s scarce) out() map[string]bool {
	content, _ := os.ReadFile(s.file)
	out := map[string]bool{}
	for _, capacityType := range strings.Fields(string(content)) {
		out[capacityType] = true
	}
	return out
}

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot read the instance types")
		os.Exit(1)
	}
	plain := scarce{kwok.NewCloudProvider(ctx, op.GetClient(), types), types, os.Getenv("OUT_OF_CAPACITY")}
	decorated := overlay.Decorate(plain, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, plain, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}
