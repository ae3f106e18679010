package silence_test

import (
	"net"
	"testing"
	"time"

	"dibs/internal/kit/silence"
	"dibs/internal/testkit"

	"golang.org/x/sys/unix"
)

// What a listener accepts has its limit, and so has what is dialled.
func TestLimit(t *testing.T) {
	listening := net.ListenConfig{Control: silence.Limit(20 * time.Second)}
	l := testkit.Got(listening.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	dialing := net.Dialer{Control: silence.Limit(10 * time.Second)}
	dialed := testkit.Got(dialing.DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	defer dialed.Close()
	accepted := testkit.Got(l.Accept())(t)
	defer accepted.Close()
	for want, conn := range map[int]net.Conn{20_000: accepted, 10_000: dialed} {
		raw := testkit.Got(conn.(*net.TCPConn).SyscallConn())(t)
		testkit.Must(t, raw.Control(func(fd uintptr) {
			got := testkit.Got(unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))(t)
			testkit.Check(t, got == want, "the limit is %d ms, want %d", got, want)
		}))
	}
}
