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
