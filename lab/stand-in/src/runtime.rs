//! The CUDA runtime's symbols that programs compiled by nvcc 13 ask for.
//!
//! Signatures are those of `cuda_runtime_api.h` and `crt/host_runtime.h`. Everything that a host pointer of the program
//! is touched for happens here; the rest of the crate has no `unsafe`.
#![expect(missing_docs, reason = "the names and meanings are CUDA's")]

use crate::Fault;
use crate::launch::Module;
use crate::memory::{Global, POISON};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const LAUNCH_FAILURE: c_int = 719;

/// cudaMemcpyKind
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    fn sizes(self) -> [usize; 3] {
        [self.x as usize, self.y as usize, self.z as usize]
    }
}

/// What the program has registered, allocated and launched.
#[derive(Default)]
struct State {
    modules: Vec<Module>,
    /// From the address of the host's stub to a kernel's name.
    kernels: HashMap<usize, String>,
    global: Global,
    configuration: Vec<(Dim3, Dim3, usize, usize)>,
    /// The error that cudaGetLastError has not told yet.
    pending: c_int,
    /// A kernel that failed makes the device unusable, as on a GPU.
    broken: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with_state<R>(f: impl FnOnce(&mut State) -> R) -> R {
    let mut guard: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_default())
}

fn complain(fault: &Fault) {
    eprintln!("stand-in: {fault}");
}

/// Result of a call that is no launch.
fn code(result: Result<(), Fault>) -> c_int {
    match result {
        Ok(()) => SUCCESS,
        Err(fault) => {
            complain(&fault);
            INVALID_VALUE
        }
    }
}

// ------------------------------------------------------------------------------------------------
// Registration, before main

/// `struct __fatBinC_Wrapper_t` of `fatbinary_section.h`.
#[repr(C)]
#[derive(Debug)]
pub struct FatBinary {
    magic: c_int,
    version: c_int,
    data: *const u8,
    _more: *mut c_void,
}

/// PTX texts in a fat binary (built with `-no-compress`): from `.version` to the terminating zero.
fn ptx_texts(image: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = image;
    while let Some(start) = rest.windows(9).position(|w| w == b".version ") {
        let end = rest[start..].iter().position(|&byte| byte == 0).map_or(rest.len(), |length| start + length);
        found.push(String::from_utf8_lossy(&rest[start..end]).into_owned());
        rest = &rest[end..];
    }
    found
}

/// # Safety
/// The compiler's code calls this with its own fat binary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *const FatBinary) -> *mut *mut c_void {
    // SAFETY: nvcc's constructor passes a wrapper that lives as long as the program, whose data starts with a header
    // of 16 bytes: magic, version, size of the header (16 bits at byte 6), size of what follows (64 bits at byte 8).
    let image = unsafe {
        let data = (*wrapper).data;
        let header = std::slice::from_raw_parts(data, 16);
        let size = crate::memory::load(&header[6..8]) + crate::memory::load(&header[8..16]);
        std::slice::from_raw_parts(data, size as usize)
    };
    with_state(|state| {
        for text in ptx_texts(image) {
            match Module::new(text) {
                Ok(module) => state.modules.push(module),
                Err(fault) => complain(&fault),
            }
        }
        if state.modules.is_empty() {
            eprintln!("stand-in: no plain PTX in the program; build it with -no-compress and code=compute_NN");
        }
    });
    std::ptr::null_mut()
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_: *mut *mut c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(_: *mut *mut c_void) {}

/// # Safety
/// `device_name` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    _: *mut *mut c_void,
    host_function: *const c_void,
    _: *mut c_char,
    device_name: *const c_char,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_int,
) {
    // SAFETY: nvcc's constructor passes a string literal.
    let name = unsafe { CStr::from_ptr(device_name) }.to_string_lossy().into_owned();
    with_state(|state| state.kernels.insert(host_function as usize, name));
}

// ------------------------------------------------------------------------------------------------
// Launches

#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: *mut c_void) -> u32 {
    with_state(|state| state.configuration.push((grid, block, shared, stream as usize)));
    0
}

/// # Safety
/// The pointers must be valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut *mut c_void,
) -> c_int {
    let Some(top) = with_state(|state| state.configuration.pop()) else { return INVALID_VALUE };
    // SAFETY: the stub that nvcc generates passes its own locals.
    unsafe {
        *grid = top.0;
        *block = top.1;
        *shared = top.2;
        *stream = top.3 as *mut c_void;
    }
    SUCCESS
}

/// The handle of a kernel is its stub's address.
///
/// # Safety
/// `handle` must be valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(handle: *mut *const c_void, host_function: *const c_void) -> c_int {
    // SAFETY: the stub that nvcc generates passes a static of its own.
    unsafe { *handle = host_function };
    SUCCESS
}

/// # Safety
/// `arguments` must point to as many pointers as the kernel has parameters, each to a parameter's value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaLaunchKernel(
    kernel: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
    _: *mut c_void,
) -> c_int {
    with_state(|state| {
        if state.broken {
            return LAUNCH_FAILURE;
        }
        // SAFETY: passed on.
        let result = unsafe { launch(state, kernel as usize, grid, block, arguments, shared) };
        if let Err(fault) = result {
            complain(&fault);
            state.broken = true;
            state.pending = LAUNCH_FAILURE;
            return LAUNCH_FAILURE;
        }
        SUCCESS
    })
}

/// # Safety
/// As [`__cudaLaunchKernel`].
unsafe fn launch(
    state: &mut State,
    kernel: usize,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
) -> Result<(), Fault> {
    let name = state.kernels.get(&kernel).ok_or_else(|| Fault::new("this kernel was not registered"))?;
    let module = state.modules.iter_mut().find(|module| module.has(name));
    let module = module.ok_or_else(|| Fault::new(format!("no module has the kernel {name}")))?;
    if shared != 0 {
        return Err(Fault::new("dynamic shared memory is not supported"));
    }
    let params = module.params(name)?;
    let mut bytes = vec![POISON; params.iter().map(|(size, at)| size + at).max().unwrap_or(0)];
    for (i, &(size, at)) in params.iter().enumerate() {
        // SAFETY: the caller's promise; the size is the one the compiler wrote into the kernel's PTX.
        let value = unsafe { std::slice::from_raw_parts((*arguments.add(i)).cast::<u8>(), size) };
        bytes[at..at + size].copy_from_slice(value);
    }
    module.run(name, grid.sizes(), block.sizes(), &bytes, &mut state.global)
}

// ------------------------------------------------------------------------------------------------
// Memory

/// # Safety
/// `pointer` must be valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(pointer: *mut *mut c_void, size: usize) -> c_int {
    let address = with_state(|state| state.global.allocate(size));
    // SAFETY: the caller's promise.
    unsafe { *pointer = address as *mut c_void };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(pointer: *mut c_void) -> c_int {
    if pointer.is_null() {
        return SUCCESS;
    }
    code(with_state(|state| state.global.free(pointer as u64)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset(pointer: *mut c_void, value: c_int, count: usize) -> c_int {
    code(with_state(|state| state.global.slice(pointer as u64, count).map(|bytes| bytes.fill(value as u8))))
}

/// # Safety
/// The host's side must be valid for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, count: usize, kind: c_int) -> c_int {
    // SAFETY: passed on: one row.
    unsafe { cudaMemcpy2D(to, count, from, count, count, 1, kind) }
}

/// # Safety
/// The host's side must be valid for `height` rows of `width` bytes at its pitch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy2D(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> c_int {
    if height > 1 && (to_pitch < width || from_pitch < width) {
        return INVALID_VALUE;
    }
    code(with_state(|state| {
        for row in 0..height {
            let (to, from) = (to.wrapping_byte_add(row * to_pitch), from.wrapping_byte_add(row * from_pitch));
            match kind {
                HOST_TO_DEVICE => {
                    // SAFETY: the caller's promise.
                    let host = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), width) };
                    state.global.slice(to as u64, width)?.copy_from_slice(host);
                }
                DEVICE_TO_HOST => {
                    let device = state.global.slice(from as u64, width)?;
                    // SAFETY: the caller's promise.
                    unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), width) }.copy_from_slice(device);
                }
                _ => return Err(Fault::new("only copies between host and device are supported")),
            }
        }
        Ok(())
    }))
}

// ------------------------------------------------------------------------------------------------
// The device and its errors

/// Offsets in `cudaDeviceProp` of CUDA 12 and 13 (`driver_types.h`): `name` at 0, `major` and `minor`.
const PROPERTY_MAJOR: usize = 360;
const PROPERTY_BYTES: usize = 368;

/// Tells the compute capability that the program's PTX is for.
///
/// # Safety
/// `properties` must be a `cudaDeviceProp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties(properties: *mut u8, _: c_int) -> c_int {
    let Some(sm) = with_state(|state| state.modules.first().map(|module| module.sm)) else { return INVALID_VALUE };
    let mut image = [0u8; PROPERTY_BYTES];
    let name = b"gemmulate stand-in (no GPU)";
    image[..name.len()].copy_from_slice(name);
    image[PROPERTY_MAJOR..][..4].copy_from_slice(&(sm / 10).to_le_bytes());
    image[PROPERTY_MAJOR + 4..][..4].copy_from_slice(&(sm % 10).to_le_bytes());
    // SAFETY: the structure is longer than what is written (about 1000 bytes).
    unsafe { std::slice::from_raw_parts_mut(properties, PROPERTY_BYTES) }.copy_from_slice(&image);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> c_int {
    with_state(|state| std::mem::take(&mut state.pending))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSynchronize() -> c_int {
    with_state(|state| if state.broken { LAUNCH_FAILURE } else { SUCCESS })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: c_int) -> *const c_char {
    match error {
        SUCCESS => c"no error",
        INVALID_VALUE => c"invalid argument",
        LAUNCH_FAILURE => c"unspecified launch failure",
        _ => c"unrecognized error code",
    }
    .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_texts_in_an_image() {
        assert_eq!(ptx_texts(b"\0\x01//\n.version 9.0\nx\0\0pad.version 9.1\0"), [".version 9.0\nx", ".version 9.1"]);
    }
}
