// Command labagent is the little that a lab needs and that no package brings: the first process of
// its namespaces, the door from the host's loopback, and a stand-in device plugin.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: labagent boot | init | gateway | device-plugin")
	}
	var err error
	switch os.Args[1] {
	case "boot":
		err = runBoot(os.Args[2:])
	case "init":
		err = runInit(os.Args[2:])
	case "gateway":
		err = runGateway(os.Args[2:])
	case "device-plugin":
		err = runDevicePlugin(os.Args[2:])
	default:
		fail(fmt.Sprintf("unknown command %q: boot, init, gateway or device-plugin", os.Args[1]))
	}
	if err != nil {
		fail(err.Error())
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "labagent: "+message)
	os.Exit(1)
}
