package futurejobs
import ("testing";"unsafe")
func TestSz(t *testing.T){ t.Logf("%d %d", unsafe.Sizeof(standing{}), 48*unsafe.Sizeof(standing{})) }
