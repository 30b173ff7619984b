package shepherd
import ("testing";"os")
func init(){ _ = testing.Short }
func useProgram() { if p:=os.Getenv("ZZPROG"); p!="" { program=p } }
func BenchmarkZZ(b *testing.B){ useProgram(); BenchmarkStartReap(b) }
