//go:build weirdebug

package netio

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
)

// ownerCheck finds uses of a loop by somebody who does not hold its token.
type ownerCheck struct {
	owner atomic.Uint64 // id of the goroutine that holds the token, 0: nobody
}

func (o *ownerCheck) acquired() { o.owner.Store(goid()) }
func (o *ownerCheck) released() { o.assertHeld(); o.owner.Store(0) }

func (o *ownerCheck) assertHeld() {
	if id, me := o.owner.Load(), goid(); id != me {
		panic(fmt.Sprintf("netio: goroutine %d uses a loop whose token goroutine %d holds", me, id))
	}
}

func goid() uint64 {
	var buf [64]byte
	s := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	id, _ := strconv.ParseUint(string(s[:max(0, bytes.IndexByte(s, ' '))]), 10, 64)
	return id
}
