// SPDX-License-Identifier: MIT
// An asynchronous allreduce from Go.
//   go build allreduce.go && qpmesh-run -np 4 allreduce
package main

// #cgo pkg-config: qpmesh
// #include <qpmesh/qpmesh.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

func check(code C.int) {
	if code != C.QPMESH_OK {
		fmt.Fprintln(os.Stderr, C.GoString(C.qpmesh_error_text()))
		os.Exit(1)
	}
}

func main() {
	runtime.LockOSThread() // errors are a thread's
	const count = 1000
	// The library keeps the pointer while the request is in flight: memory of C's.
	data := C.malloc(count * 8)
	defer C.free(data)
	values := unsafe.Slice((*float64)(data), count)
	for i := range values {
		values[i] = 1
	}
	var world *C.qpmesh_communicator
	var request *C.qpmesh_request
	check(C.qpmesh_init(&world))
	check(C.qpmesh_allreduce_async(world, data, data, count, C.QPMESH_FLOAT64, C.QPMESH_SUM, nil, &request))
	check(C.qpmesh_wait(request, nil)) // after other work
	check(C.qpmesh_request_free(request))
	if C.qpmesh_rank(world) == 0 {
		fmt.Printf("%d ranks, each element %g\n", C.qpmesh_size(world), values[count-1])
	}
	check(C.qpmesh_finalize(world, nil))
}
