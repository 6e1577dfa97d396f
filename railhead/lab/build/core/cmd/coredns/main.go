// Command coredns is CoreDNS with only the plugins that a cluster's own DNS needs.
//
// CoreDNS's documented way to choose plugins is a main package of one's own that imports them and
// sets their order; leaving out the cloud plugins leaves out the AWS, Azure and Google SDKs, which
// is most of CoreDNS's build time.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"bind", "health", "ready", "errors", "log", "cache", "kubernetes"}
	coremain.Run()
}
