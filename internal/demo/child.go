package demo

import (
	"bytes"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a program that the demo runs. It ends with the demo, however that ends.
type child struct {
	cmd, killer *exec.Cmd
	log         *bytes.Buffer
}

// startChild starts a program under a name. out is its stdout.
func startChild(env []string, program, name string, args ...string) (c *child, out io.Reader, err error) {
	c = &child{cmd: exec.Command(program, args...), log: new(bytes.Buffer)}
	c.cmd.Args[0], c.cmd.Env, c.cmd.Stderr = name, env, c.log
	// Signals of the terminal, such as Ctrl-C, go to the demo only.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, nil, err
	}
	c.killer = exec.Command("sh", "-c", `cat; kill -9 "$0"`, strconv.Itoa(c.cmd.Process.Pid))
	c.killer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_, err = c.killer.StdinPipe() // closes when this process ends
	if err == nil {
		err = c.killer.Start()
	}
	if err != nil {
		c.kill()
		return nil, nil, err
	}
	return c, out, nil
}

// kill sends SIGKILL.
func (c *child) kill() { c.stop(syscall.SIGKILL) }

// end sends SIGTERM, for an orderly end.
func (c *child) end() { c.stop(syscall.SIGTERM) }

func (c *child) stop(how syscall.Signal) {
	if c.killer != nil && c.killer.Process != nil {
		c.killer.Process.Kill()
		c.killer.Wait()
		c.killer = nil
	}
	if c.cmd.ProcessState == nil {
		c.cmd.Process.Signal(how)
		late := time.AfterFunc(3*time.Second, func() { c.cmd.Process.Kill() })
		defer late.Stop()
		c.cmd.Wait() // its error is of no interest
	}
}

// said returns the last line of its stderr, once it has ended.
func (c *child) said() string {
	lines := strings.Split(strings.TrimSpace(c.log.String()), "\n")
	return lines[len(lines)-1]
}
