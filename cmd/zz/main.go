package main
import ("context";"os";"strconv";"deadman/bench";"fmt";"runtime/pprof")
func main(){ n,_:=strconv.Atoi(os.Args[2]); r,_:=strconv.Atoi(os.Args[3])
 if len(os.Args)>4 { f,_:=os.Create(os.Args[4]); pprof.StartCPUProfile(f); defer pprof.StopCPUProfile() }
 if err:=bench.Drain(context.Background(), bench.Options{DatabaseURL:os.Args[1],Jobs:n,Rounds:r,Out:os.Stdout}); err!=nil {fmt.Println(err)} }
