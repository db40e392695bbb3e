// The one program of the images: it runs for a time, grows, writes, and ends as it is told.
//
//	box                        until SIGTERM, then exit 0; it also reaps orphans, as the pause container and as PID 1
//	box -seconds 3 -exit 2     ends by itself
//	box -linger 3              SIGTERM ends it three seconds later
//	box -deaf                  SIGTERM does not end it
//	box -grow                  takes memory until it is killed
//	box -write /d/x -mib 30    writes a file first
package main

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	seconds := flag.Float64("seconds", 0, "")
	exit := flag.Int("exit", 0, "")
	linger := flag.Float64("linger", 0, "")
	deaf := flag.Bool("deaf", false, "")
	grow := flag.Bool("grow", false, "")
	write := flag.String("write", "", "")
	mib := flag.Int("mib", 0, "")
	flag.Parse()

	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	var ends <-chan time.Time
	if *seconds > 0 {
		ends = time.After(time.Duration(*seconds * float64(time.Second)))
	}
	if *write != "" {
		if err := os.WriteFile(*write, make([]byte, *mib<<20), 0o600); err != nil {
			panic(err)
		}
	}
	var kept [][]byte
	for {
		if *grow {
			page := make([]byte, 1<<20)
			for i := range page {
				page[i] = 1
			}
			kept = append(kept, page)
			continue
		}
		select {
		case <-ends:
			os.Exit(*exit)
		case <-asked:
			if *deaf {
				continue
			}
			time.Sleep(time.Duration(*linger * float64(time.Second)))
			os.Exit(*exit)
		case <-orphans:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}
