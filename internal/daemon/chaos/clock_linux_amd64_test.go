package chaos_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Go program asks the kernel for the time through a function that the kernel maps
// into every process, the vDSO's __vdso_clock_gettime. A daemon under test puts its own
// code there before anything else: it asks the kernel all the same, and adds to the
// seconds what a file says for that clock. Whoever writes the file changes the clocks of
// that process, and of no other, at once.

// canBendClocks says that clocks can be made wrong here.
const canBendClocks = true

// clocks is how many numbers the file has: one for each clock id, as eight bytes.
const clocks = 16

// bendClocks makes the clocks of this process the machine's plus what the file says.
func bendClocks(file string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	table, err := unix.Mmap(int(f.Fd()), 0, clocks*8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	code := []byte{
		0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, table
		0x83, 0xe7, clocks - 1, // and edi, clocks-1
		0x48, 0x8b, 0x0c, 0xf9, // mov rcx, [rcx+rdi*8]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	}
	binary.LittleEndian.PutUint64(code[9:], uint64(uintptr(unsafe.Pointer(&table[0]))))
	mem, err := unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mem)
	at, err := clockGettime(mem, len(code))
	if err != nil {
		return err
	}
	// Other threads may ask for the time meanwhile. They wait at a jump to itself until
	// the rest is there.
	wait := []byte{0xeb, 0xfe} // jmp $
	for _, part := range []struct {
		code []byte
		at   int64
	}{{wait, at}, {code[2:], at + 2}, {code[:2], at}} {
		if _, err := unix.Pwrite(mem, part.code, part.at); err != nil {
			return fmt.Errorf("writing the vDSO: %w", err)
		}
		unix.Nanosleep(&unix.Timespec{Nsec: int64(time.Millisecond)}, nil)
	}
	return nil
}

// clockGettime finds __vdso_clock_gettime, of at least that many bytes, in this process.
func clockGettime(mem, least int) (at int64, err error) {
	maps, err := os.Open("/proc/self/maps")
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
			if s.Name == "__vdso_clock_gettime" && int(s.Size) >= least {
				return from + int64(s.Value), nil
			}
		}
	}
	return 0, errors.New("this kernel has no vDSO with __vdso_clock_gettime")
}

// setClocks changes what is added to the clocks of the process that bends them by the file.
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
