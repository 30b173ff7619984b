package images

import "fmt"

// Lacks says in what a request is below the image's minimum, a text with both numbers for each; none where it is enough.
// Memory of 0 in a request is memory without a limit. A whole GPU is enough for any fraction.
func (l *Labels) Lacks(asked Resources) []string {
	var out []string
	lack := func(what, asked, least string) {
		out = append(out, fmt.Sprintf("%s is %s, and the least is %s", what, asked, least))
	}
	if asked.CPU < l.Min.CPU {
		lack("cores (-n)", fmt.Sprint(asked.CPU), fmt.Sprint(l.Min.CPU))
	}
	if asked.Memory > 0 && asked.Memory < l.Min.Memory {
		lack("memory (-M)", mebibytes(asked.Memory), mebibytes(l.Min.Memory))
	}
	if asked.GPUs < l.Min.GPUs {
		lack("whole GPUs (-gpu num=)", fmt.Sprint(asked.GPUs), fmt.Sprint(l.Min.GPUs))
	}
	if asked.GPUs == 0 && asked.FGPU < l.Min.FGPU {
		lack("fGPU (-gpu fgpu=)", asked.FGPU.String(), l.Min.FGPU.String())
	}
	return out
}

// mebibytes never shows less as enough: 1.5 MiB asked and 2 MiB needed differ.
func mebibytes(n int64) string {
	const mib = 1 << 20
	if n%mib == 0 {
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%d bytes", n)
}
