package trial_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Go program reads the clock through a function that the kernel maps into every process, the
// vDSO's __vdso_clock_gettime. The parent of a daemon replaces its code before the daemon has run
// an instruction, so no thread can be inside. The new code asks the kernel, too, and adds the
// seconds that a file has for that clock, once the daemon has told it where the file is mapped.
// Writing the file changes the clocks of that process, and of no other, at once.

// canBendClocks reports whether clocks can be made wrong on this system.
const canBendClocks = true

// clocks is how many numbers the file has: eight bytes for each clock id.
const clocks = 16

// bent is the new code. Its last eight bytes are the address of the mapped file.
var bent = []byte{
	0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x48, 0x8b, 0x0d, 18, 0, 0, 0, // mov rcx, table
	0x48, 0x85, 0xc9, // test rcx, rcx
	0x74, 10, // jz to the ret
	0x83, 0xe7, clocks - 1, // and edi, clocks-1
	0x48, 0x8b, 0x0c, 0xf9, // mov rcx, [rcx+rdi*8]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, 0xcc, 0xcc, // ret
	0, 0, 0, 0, 0, 0, 0, 0, // table
}

// startBendable starts a command whose clocks can be bent. The command is stopped at its first
// instruction until the code is replaced.
func startBendable(cmd *exec.Cmd) error {
	runtime.LockOSThread() // this thread traces the command
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var at unix.WaitStatus
	_, err := unix.Wait4(pid, &at, 0, nil)
	if err == nil && !at.Stopped() {
		err = fmt.Errorf("it does not stand at its first instruction: %v", at)
	}
	if err == nil {
		err = writeClockGettime(fmt.Sprint(pid), 0, bent)
	}
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return fmt.Errorf("bending its clocks: %w", err)
	}
	return nil
}

// bendClocks adds the file's numbers to the clocks of this process, which startBendable must have
// started.
func bendClocks(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	table, err := unix.Mmap(int(f.Fd()), 0, clocks*8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	where := binary.LittleEndian.AppendUint64(nil, uint64(uintptr(unsafe.Pointer(&table[0]))))
	return writeClockGettime("self", len(bent)-len(where), where)
}

// writeClockGettime overwrites the __vdso_clock_gettime of a process from byte from on.
func writeClockGettime(process string, from int, code []byte) error {
	mem, err := unix.Open("/proc/"+process+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mem)
	at, err := clockGettime(process, mem)
	if err != nil {
		return err
	}
	if _, err := unix.Pwrite(mem, code, at+int64(from)); err != nil {
		return fmt.Errorf("writing the vDSO: %w", err)
	}
	return nil
}

// clockGettime returns the address of a process's __vdso_clock_gettime, which has room for the
// code.
func clockGettime(process string, mem int) (at int64, err error) {
	maps, err := os.Open("/proc/" + process + "/maps")
	if err != nil {
		return 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil || !strings.HasSuffix(lines.Text(), "[vdso]") {
			continue
		}
		image := make([]byte, to-from)
		if _, err := unix.Pread(mem, image, from); err != nil {
			return 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, err
		}
		symbols, err := file.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" && int(s.Size) >= len(bent) && s.Value%8 == 0 {
				return from + int64(s.Value), nil
			}
		}
	}
	return 0, errors.New("this kernel has no vDSO with a __vdso_clock_gettime that is large enough")
}

// setClocks changes the numbers in the file.
func setClocks(file string, wall, mono time.Duration) error {
	table := make([]byte, clocks*8)
	binary.LittleEndian.PutUint64(table[unix.CLOCK_REALTIME*8:], uint64(int64(wall/time.Second)))
	binary.LittleEndian.PutUint64(table[unix.CLOCK_MONOTONIC*8:], uint64(int64(mono/time.Second)))
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(table, 0)
	return errors.Join(err, f.Close())
}

// TestBentClocks starts a daemon an hour in the future.
func TestBentClocks(t *testing.T) {
	p := newProcess(newBoard(t, shortTrial), 1)
	p.wall = time.Hour
	p.start()
	lines, err := os.ReadFile(p.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	stamp, _, _ := strings.Cut(strings.TrimPrefix(string(lines), "time="), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if ahead := time.Until(at); err != nil || ahead < 50*time.Minute || ahead > time.Hour {
		t.Errorf("the daemon is %v ahead (%v), want an hour; it says\n%s", ahead, err, lines)
	}
}
