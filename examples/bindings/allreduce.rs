// SPDX-License-Identifier: MIT
// An asynchronous allreduce from Rust.
//   rustc allreduce.rs -L … -l qpmesh && qpmesh-run -np 4 allreduce
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::{null, null_mut};

const FLOAT64: c_int = 10;
const SUM: c_int = 0;

#[rustfmt::skip]
extern "C" {
    fn qpmesh_init(world: *mut *mut c_void) -> c_int;
    fn qpmesh_finalize(world: *mut c_void, call: *const c_void) -> c_int;
    fn qpmesh_rank(world: *const c_void) -> c_int;
    fn qpmesh_size(world: *const c_void) -> c_int;
    fn qpmesh_allreduce_async(world: *mut c_void, input: *const c_void, output: *mut c_void, count: usize, kind: c_int,
                              reduction: c_int, call: *const c_void, request: *mut *mut c_void) -> c_int;
    fn qpmesh_wait(request: *mut c_void, status: *mut c_void) -> c_int;
    fn qpmesh_request_free(request: *mut c_void) -> c_int;
    fn qpmesh_error_text() -> *const c_char;
}

fn check(code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    Err(unsafe { CStr::from_ptr(qpmesh_error_text()) }.to_string_lossy().into_owned())
}

fn main() -> Result<(), String> {
    let mut values = [1.0f64; 1000];
    let (mut world, mut request) = (null_mut(), null_mut());
    unsafe {
        check(qpmesh_init(&mut world))?;
        let data = values.as_mut_ptr().cast::<c_void>();
        check(qpmesh_allreduce_async(world, data, data, values.len(), FLOAT64, SUM, null(), &mut request))?;
        check(qpmesh_wait(request, null_mut()))?; // after other work
        check(qpmesh_request_free(request))?;
        if qpmesh_rank(world) == 0 {
            println!("{} ranks, each element {}", qpmesh_size(world), values[999]);
        }
        check(qpmesh_finalize(world, null()))
    }
}
