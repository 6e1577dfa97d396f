package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// resourceFlags collects -resource NAME=COUNT.
type resourceFlags []resource

type resource struct {
	name  string
	count int
}

func (r *resourceFlags) String() string { return fmt.Sprint(*r) }

func (r *resourceFlags) Set(value string) error {
	name, count, ok := strings.Cut(value, "=")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || !strings.Contains(name, "/") {
		return fmt.Errorf("%q is not DOMAIN/NAME=COUNT", value)
	}
	*r = append(*r, resource{name, n})
	return nil
}

// runDevicePlugin speaks the kubelet's device-plugin protocol for devices that this machine does
// not have: it advertises them, hands them out and says so in the container's environment.
func runDevicePlugin(args []string) error {
	flags := flag.NewFlagSet("device-plugin", flag.ContinueOnError)
	dir := flags.String("dir", api.DevicePluginPath, "the kubelet's device-plugin directory")
	var resources resourceFlags
	flags.Var(&resources, "resource", "DOMAIN/NAME=COUNT, repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(resources) == 0 {
		return errors.New("device-plugin: at least one -resource is required")
	}
	failed := make(chan error)
	for i, r := range resources {
		p := &plugin{dir: *dir, socket: fmt.Sprintf("railhead-%d.sock", i), resource: r}
		go func() { failed <- p.serve() }()
	}
	return <-failed
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	dir      string
	socket   string
	resource resource
}

// serve listens, registers, and does both again whenever the kubelet makes its socket anew, which
// is how a restarted kubelet asks its plugins to come back (it also deletes their sockets).
func (p *plugin) serve() error {
	for {
		kubelet := filepath.Join(p.dir, "kubelet.sock")
		inode := waitForSocket(kubelet)
		path := filepath.Join(p.dir, p.socket)
		os.Remove(path)
		listener, err := net.Listen("unix", path)
		if err != nil {
			return fmt.Errorf("device-plugin %s: %w", p.resource.name, err)
		}
		server := grpc.NewServer()
		api.RegisterDevicePluginServer(server, p)
		go server.Serve(listener)
		if err := p.register(kubelet); err != nil {
			log.Printf("%s: register: %v", p.resource.name, err)
			server.Stop()
			time.Sleep(200 * time.Millisecond)
			continue
		}
		log.Printf("%s: %d stand-in devices registered", p.resource.name, p.resource.count)
		for socketInode(kubelet) == inode && socketInode(path) != 0 {
			time.Sleep(500 * time.Millisecond)
		}
		server.Stop()
	}
}

func (p *plugin) register(kubelet string) error {
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     p.socket,
		ResourceName: p.resource.name,
	})
	return err
}

func waitForSocket(path string) uint64 {
	for {
		if inode := socketInode(path); inode != 0 {
			return inode
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func socketInode(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

func (p *plugin) deviceID(i int) string {
	_, short, _ := strings.Cut(p.resource.name, "/")
	return fmt.Sprintf("%s-%d", short, i)
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	devices := make([]*api.Device, p.resource.count)
	for i := range devices {
		devices[i] = &api.Device{ID: p.deviceID(i), Health: api.Healthy}
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate names the devices in the environment, as the real plugins do for theirs; there is no
// device node to hand over.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	variable := "RAILHEAD_STANDIN_" + strings.ToUpper(strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(p.resource.name))
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{variable: strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}

func (p *plugin) GetPreferredAllocation(context.Context, *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	return &api.PreferredAllocationResponse{}, nil
}

func (p *plugin) PreStartContainer(context.Context, *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}
