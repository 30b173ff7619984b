package show

import "strconv"

const units = "KMGTPEZ"

// Bytes appends a size as LSF words it: "812 Kbytes", "9 Mbytes", "5.2 Gbytes". Kilo and mega are whole
// numbers. A unit letter fixes the unit; 0 or 'S' chooses it by size.
func Bytes(b []byte, v int64, unit byte) []byte {
	n, u := scale(v, unit)
	if u <= 1 {
		b = strconv.AppendFloat(b, n, 'f', 0, 64)
	} else {
		b = trimZero(one(b, n))
	}
	return append(append(b, ' ', units[u]), "bytes"...)
}

// limitSize is a size in the columns of limits: "3.9 G", "0 M".
func limitSize(v int64) string {
	n, u := scale(v, 0)
	b := trimZero(one(nil, n))
	return string(append(b, ' ', units[u]))
}

// hostSize is a size in the columns of hosts: "127.2G", "512M".
func hostSize(v int64) string {
	if v == 0 {
		return "0M"
	}
	n, u := scale(v, 0)
	var b []byte
	if u <= 1 {
		b = strconv.AppendFloat(nil, n, 'f', 0, 64)
	} else {
		b = trimZero(one(nil, n))
	}
	return string(append(b, units[u]))
}

func scale(v int64, unit byte) (n float64, u int) {
	n = float64(v) / 1024
	for u < len(units)-1 {
		if unit != 0 && unit != 'S' {
			if units[u] == unit {
				break
			}
		} else if n < 1024 {
			break
		}
		n /= 1024
		u++
	}
	return n, u
}

// trimZero takes ".0" off the end.
func trimZero(b []byte) []byte {
	if n := len(b); n > 2 && b[n-1] == '0' && b[n-2] == '.' {
		return b[:n-2]
	}
	return b
}

// MiB is a size for people, as nvidia-smi words it: "2048 MiB".
func MiB(v int64) string { return strconv.FormatInt(v>>20, 10) + " MiB" }
