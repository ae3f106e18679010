package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a program that the demo runs. It does not outlive the demo, however that ends.
type child struct {
	cmd, guard *exec.Cmd
	log        *bytes.Buffer
}

// startChild starts a program under a name. out is what it prints.
func startChild(env []string, program, name string, args ...string) (c *child, out io.Reader, err error) {
	c = &child{cmd: exec.Command(program, args...), log: new(bytes.Buffer)}
	c.cmd.Args[0], c.cmd.Env, c.cmd.Stderr = name, env, c.log
	// What the terminal sends, such as Ctrl-C, is for the demo.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, nil, err
	}
	c.guard = exec.Command("sh", "-c", `cat; kill -9 "$0"`, strconv.Itoa(c.cmd.Process.Pid))
	c.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_, err = c.guard.StdinPipe() // which ends with this process
	if err == nil {
		err = c.guard.Start()
	}
	if err != nil {
		c.kill()
		return nil, nil, err
	}
	return c, out, nil
}

// kill kills it, with SIGKILL.
func (c *child) kill() { c.stop(syscall.SIGKILL) }

// end lets it end in good order.
func (c *child) end() { c.stop(syscall.SIGTERM) }

func (c *child) stop(how syscall.Signal) {
	if c.guard != nil && c.guard.Process != nil {
		c.guard.Process.Kill()
		c.guard.Wait()
		c.guard = nil
	}
	if c.cmd.ProcessState == nil {
		c.cmd.Process.Signal(how)
		late := time.AfterFunc(3*time.Second, func() { c.cmd.Process.Kill() })
		defer late.Stop()
		c.cmd.Wait() // says how it ended
	}
}

// said is the last line of what it had to say, once it has ended.
func (c *child) said() string {
	lines := strings.Split(strings.TrimSpace(c.log.String()), "\n")
	return lines[len(lines)-1]
}

// errNoEtcd says that there is no etcd, and how to get one.
var errNoEtcd = errors.New("--machines needs an etcd, and no program of that name is on the PATH: install one (apt-get install etcd-server, brew install etcd), or name one that runs with --etcd URL")

// etcdTime is how long etcd may take to start.
const etcdTime = 10 * time.Second

// startEtcd starts an etcd of one member in dir.
func startEtcd(ctx context.Context, dir string) (c *child, client string, err error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, "", errNoEtcd
	}
	client, peer, err := freeURLs()
	if err != nil {
		return nil, "", err
	}
	c, _, err = startChild([]string{"HOME=" + dir, "ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH}, program, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--logger", "zap",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return nil, "", fmt.Errorf("etcd does not start: %w", err)
	}
	for end := time.Now().Add(etcdTime); !healthy(ctx, client); pause(ctx, 50*time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			c.kill()
			return nil, "", fmt.Errorf("etcd (%s) does not start: %s", program, c.said())
		}
	}
	return c, client, nil
}

// healthy reports whether etcd has a leader and answers.
func healthy(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(said), `"true"`)
}

// forget takes what is below a prefix out of an etcd, if that can be done without much ado.
func forget(url, prefix string) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	body := fmt.Sprintf(`{"key":%q,"range_end":%q}`, b64(prefix+"/"), b64(prefix+"0"))
	resp, err := (&http.Client{Timeout: 2 * time.Second}).Post(strings.TrimRight(url, "/")+"/v3/kv/deleterange", "application/json", strings.NewReader(body))
	if err == nil {
		resp.Body.Close()
	}
}

// freeURLs are two addresses on this machine that nobody listens on.
func freeURLs() (client, peer string, err error) {
	var urls [2]string
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		urls[i] = "http://" + l.Addr().String()
	}
	return urls[0], urls[1], nil
}
