package portguard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel's layouts of linux/inet_diag.h, as far as they are used.
const (
	diagRequest = 56 // struct inet_diag_req_v2
	diagMessage = 72 // struct inet_diag_msg
	diagOnly6   = 11 // INET_DIAG_SKV6ONLY
	tcpListen   = 10 // TCP_LISTEN
)

// listeners asks the kernel for all TCP sockets of this machine that take connections. Unlike /proc/net/tcp this costs
// nothing for the connections that there are.
func listeners() ([]listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sockets of this machine: %w", err)
	}
	defer unix.Close(fd)
	// The kernel answers at once, or never.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return nil, fmt.Errorf("sockets of this machine: %w", err)
	}
	var out []listener
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if out, err = dump(fd, family, out); err != nil {
			return nil, fmt.Errorf("sockets of this machine: %w", err)
		}
	}
	return out, nil
}

// dump appends the listeners of one address family.
func dump(fd int, family byte, out []listener) ([]listener, error) {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequest)
	order := binary.NativeEndian
	order.PutUint32(b, uint32(len(b)))
	order.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b[16], b[17] = family, unix.IPPROTO_TCP
	order.PutUint32(b[20:], 1<<tcpListen)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if len(m.Data) >= 4 {
					if no := -int32(order.Uint32(m.Data)); no != 0 {
						return nil, os.NewSyscallError("sock_diag", syscall.Errno(no))
					}
				}
				return out, nil
			case unix.SOCK_DIAG_BY_FAMILY:
				l, err := parseListener(m.Data)
				if err != nil {
					return nil, err
				}
				out = append(out, l)
			}
		}
	}
}

// parseListener reads a struct inet_diag_msg and the attributes behind it.
func parseListener(b []byte) (listener, error) {
	if len(b) < diagMessage {
		return listener{}, fmt.Errorf("a socket in %d bytes: want at least %d", len(b), diagMessage)
	}
	var l listener
	addr := netip.Addr{}
	switch b[0] {
	case unix.AF_INET:
		addr = netip.AddrFrom4([4]byte(b[8:]))
	case unix.AF_INET6:
		addr = netip.AddrFrom16([16]byte(b[8:]))
	default:
		return listener{}, fmt.Errorf("a socket of address family %d: want %d or %d", b[0], unix.AF_INET, unix.AF_INET6)
	}
	if b[1] != tcpListen {
		return listener{}, fmt.Errorf("a socket in state %d: want %d", b[1], tcpListen)
	}
	l.at = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[4:]))
	l.uid = binary.NativeEndian.Uint32(b[64:])
	for rest := b[diagMessage:]; len(rest) > 0; {
		if len(rest) < unix.SizeofNlAttr {
			return listener{}, errors.New("a socket with half an attribute")
		}
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofNlAttr || size > len(rest) {
			return listener{}, fmt.Errorf("a socket with an attribute of %d bytes of %d", size, len(rest))
		}
		if kind == diagOnly6 && size > unix.SizeofNlAttr {
			l.only6 = rest[unix.SizeofNlAttr] != 0
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return l, nil
}
