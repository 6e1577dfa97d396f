package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// request is one command to an init; one request a connection, answered by one reply.
type request struct {
	// Op is start, run, list or signal.
	Op string `json:"op"`
	// Role names what is started, for list and signal.
	Role string   `json:"role,omitempty"`
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	// Log is the file that a started process's output is appended to.
	Log string `json:"log,omitempty"`
	// Stdin is fed to a process that is run.
	Stdin string `json:"stdin,omitempty"`
	// Isolate starts the process in PID, mount, network, UTS and IPC namespaces of its own.
	Isolate bool           `json:"isolate,omitempty"`
	Signal  syscall.Signal `json:"signal,omitempty"`
}

type role struct {
	Pid     int  `json:"pid"`
	Running bool `json:"running"`
	// Code is the exit status, or 128 plus the signal.
	Code int `json:"code"`
	done chan struct{}
}

type reply struct {
	Error  string           `json:"error,omitempty"`
	Pid    int              `json:"pid,omitempty"`
	Code   int              `json:"code"`
	Output string           `json:"output,omitempty"`
	Roles  map[string]*role `json:"roles,omitempty"`
}

type initProcess struct {
	mu    sync.Mutex
	roles map[string]*role
	byPid map[int]*role
}

// runBoot starts an init in namespaces of its own and ends; the init's parent is then the host's.
func runBoot(args []string) error {
	flags := flag.NewFlagSet("boot", flag.ContinueOnError)
	socket := flags.String("socket", "", "control socket of the init")
	logPath := flags.String("log", "", "log file of the init")
	if err := flags.Parse(args); err != nil {
		return err
	}
	output, err := os.OpenFile(*logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = syscall.ForkExec(self, []string{"labagent", "init", "-socket", *socket}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces},
	})
	return err
}

// runInit is process 1 of a lab's or a node's namespaces. It starts what it is asked to, reaps
// orphans, and ends on SIGTERM. However it ends, the kernel then ends every process of the
// namespace and with them every mount, interface and firewall rule: nothing can be left behind.
func runInit(args []string) error {
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	socket := flags.String("socket", "", "control socket")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// A private tree keeps every mount made here from the host.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("init: make / private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("init: mount /proc: %w", err)
	}
	os.Remove(*socket)
	// The socket's directory is 0700; the mode below is for the time before anyone looks.
	syscall.Umask(0o077)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: *socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	syscall.Umask(0o022)
	p := &initProcess{roles: map[string]*role{}, byPid: map[int]*role{}}
	go p.reap()
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ending
		os.Exit(0)
	}()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
		go p.serve(conn)
	}
}

func (p *initProcess) reap() {
	children := make(chan os.Signal, 64)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
			p.mu.Lock()
			if r, ok := p.byPid[pid]; ok {
				delete(p.byPid, pid)
				r.Running = false
				r.Code = status.ExitStatus()
				if status.Signaled() {
					r.Code = 128 + int(status.Signal())
				}
				close(r.done)
			}
			p.mu.Unlock()
		}
	}
}

func (p *initProcess) serve(conn *net.UnixConn) {
	defer conn.Close()
	answer := reply{}
	text, files, err := receive(conn)
	if err == nil {
		answer, err = p.handle(text, files)
	}
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	if err := json.NewEncoder(conn).Encode(answer); err != nil {
		log.Printf("reply: %v", err)
	}
}

// receive reads a request, which ends where its writer shuts down, and the descriptors it carries.
func receive(conn *net.UnixConn) ([]byte, []*os.File, error) {
	first := make([]byte, 1<<16)
	control := make([]byte, 1<<10)
	n, controlled, _, _, err := conn.ReadMsgUnix(first, control)
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	messages, err := syscall.ParseSocketControlMessage(control[:controlled])
	if err != nil {
		return nil, nil, err
	}
	for _, message := range messages {
		fds, err := syscall.ParseUnixRights(&message)
		if err != nil {
			return nil, nil, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	rest, err := io.ReadAll(conn)
	return append(first[:n], rest...), files, err
}

func (p *initProcess) handle(text []byte, files []*os.File) (reply, error) {
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return reply{}, err
	}
	switch r.Op {
	case "start":
		return p.start(r, files)
	case "run":
		return p.run(r)
	case "list":
		p.mu.Lock()
		defer p.mu.Unlock()
		roles := map[string]*role{}
		for name, one := range p.roles {
			copied := *one
			roles[name] = &copied
		}
		return reply{Roles: roles}, nil
	case "signal":
		p.mu.Lock()
		defer p.mu.Unlock()
		one, ok := p.roles[r.Role]
		if !ok || !one.Running {
			return reply{}, fmt.Errorf("%s is not running", r.Role)
		}
		return reply{Pid: one.Pid}, syscall.Kill(one.Pid, r.Signal)
	}
	return reply{}, fmt.Errorf("unknown op %q", r.Op)
}

// fork starts argv and registers it before the reaper can meet its end.
func (p *initProcess) fork(r request, files []uintptr) (*role, error) {
	if len(r.Argv) == 0 {
		return nil, errors.New("argv is empty")
	}
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return nil, err
	}
	attributes := &syscall.SysProcAttr{Setsid: true}
	if r.Isolate {
		attributes.Cloneflags = namespaces
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(path, r.Argv, &syscall.ProcAttr{Dir: "/", Env: r.Env, Files: files, Sys: attributes})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	one := &role{Pid: pid, Running: true, done: make(chan struct{})}
	p.byPid[pid] = one
	if r.Role != "" {
		p.roles[r.Role] = one
	}
	return one, nil
}

func (p *initProcess) start(r request, passed []*os.File) (reply, error) {
	p.mu.Lock()
	existing, ok := p.roles[r.Role]
	p.mu.Unlock()
	if ok && existing.Running {
		return reply{}, fmt.Errorf("%s is already running", r.Role)
	}
	output, err := os.OpenFile(r.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return reply{}, err
	}
	defer output.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return reply{}, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), output.Fd(), output.Fd()}
	for _, f := range passed {
		files = append(files, f.Fd())
	}
	one, err := p.fork(r, files)
	if err != nil {
		return reply{}, err
	}
	return reply{Pid: one.Pid}, nil
}

func (p *initProcess) run(r request) (reply, error) {
	input, feed, err := os.Pipe()
	if err != nil {
		return reply{}, err
	}
	drain, output, err := os.Pipe()
	if err != nil {
		return reply{}, err
	}
	defer drain.Close()
	r.Role = ""
	one, err := p.fork(r, []uintptr{input.Fd(), output.Fd(), output.Fd()})
	input.Close()
	output.Close()
	if err != nil {
		feed.Close()
		return reply{}, err
	}
	go func() {
		io.WriteString(feed, r.Stdin)
		feed.Close()
	}()
	printed, err := io.ReadAll(drain)
	if err != nil {
		return reply{}, err
	}
	<-one.done
	return reply{Code: one.Code, Output: string(printed)}, nil
}
