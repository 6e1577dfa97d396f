package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// runGateway accepts on a listening socket that it inherits and forwards to an address of its own
// network namespace. The socket was opened in the host's namespace, on loopback: that is the only
// way into the lab, and no interface or firewall rule on the host is needed for it.
func runGateway(args []string) error {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fd := flags.Int("fd", 3, "inherited listening socket")
	to := flags.String("to", "", "address to forward to, such as 10.210.0.1:6443")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("gateway: -to is required")
	}
	listener, err := net.FileListener(os.NewFile(uintptr(*fd), "listener"))
	if err != nil {
		return fmt.Errorf("gateway: descriptor %d is not a listening socket: %w", *fd, err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		go forward(client.(*net.TCPConn), *to)
	}
}

func forward(client *net.TCPConn, to string) {
	defer client.Close()
	conn, err := net.DialTimeout("tcp", to, 5*time.Second)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	done := make(chan struct{})
	go func() {
		io.Copy(server, client)
		server.CloseWrite()
		close(done)
	}()
	io.Copy(client, server)
	client.CloseWrite()
	<-done
}
