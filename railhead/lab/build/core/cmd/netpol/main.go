// Command netpol is kube-router's network policy controller, as K3s embeds it, and nothing else of
// kube-router: it turns the NetworkPolicies of a node's pods into iptables rules and ipsets there.
package main

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "netpol: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node", "", "the name of this node")
	services := flag.String("service-cidr", "", "the addresses of services")
	flag.Parse()

	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	config := options.NewKubeRouterConfig()
	config.EnableIPv4 = true
	config.HostnameOverride = *node
	config.ClusterIPCIDRs = []string{*services}
	// Whatever else edits the chains, the rules are back in place within this.
	config.IPTablesSyncPeriod = 30 * time.Second

	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("the list of %v could not be read", kind)
		}
	}
	// The node registers itself a moment after this was started.
	for {
		if err = start(client, config, pods, policies, namespaces, stop); err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "netpol: "+err.Error()+"; trying again")
		time.Sleep(time.Second)
	}
	select {}
}

func start(
	client kubernetes.Interface,
	config *options.KubeRouterConfig,
	pods, policies, namespaces cache.SharedIndexInformer,
	stop chan struct{},
) error {
	iptables, ipsets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	var lock sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &lock, iptables, ipsets)
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
		namespaces: controller.NamespaceEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, stop, &running)
	return nil
}
