//! NVIDIA's run-time compiler.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;

use libloading::{Library, Symbol};

/// Why nothing was compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The library is not there or not usable.
    #[error("NVRTC is not usable: {0}")]
    Missing(String),
    /// The source does not compile.
    #[error("{source_name} does not compile with {options:?}:\n{log}")]
    Compile {
        /// Name of the source.
        source_name: String,
        /// The options.
        options: Vec<String>,
        /// Output of the compiler.
        log: String,
    },
    /// A call failed.
    #[error("{call} failed with code {code}")]
    Failed {
        /// The call.
        call: &'static str,
        /// `nvrtcResult`.
        code: i32,
    },
}

/// Kind of output that is compiled from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Text for drivers to compile: the architecture is virtual, e.g. `compute_70`.
    Ptx,
    /// Machine code: the architecture is real, e.g. `sm_70`.
    Cubin,
}

/// The library, loaded.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    /// Major and minor.
    pub version: (i32, i32),
}

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

impl Nvrtc {
    /// Loads the library that `ZELLIGE_NVRTC` names, or the one that `scripts/nvrtc` has put into
    /// the target folder.
    ///
    /// # Errors
    /// [`NvrtcError::Missing`], with instructions to get it.
    pub fn find() -> Result<Nvrtc, NvrtcError> {
        let path = std::env::var_os("ZELLIGE_NVRTC").map_or_else(default_path, PathBuf::from);
        if !path.exists() {
            let path = path.display();
            return Err(NvrtcError::Missing(format!(
                "there is no {path}: run scripts/nvrtc, or set ZELLIGE_NVRTC"
            )));
        }
        // SAFETY: NVIDIA's library, whose initialisers may be run by anybody.
        let library =
            unsafe { Library::new(&path) }.map_err(|error| NvrtcError::Missing(error.to_string()))?;
        let mut nvrtc = Nvrtc { library, version: (0, 0) };
        let version = nvrtc.call::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two ints to write to.
        checked("nvrtcVersion", unsafe { version(&mut major, &mut minor) })?;
        nvrtc.version = (major, minor);
        Ok(nvrtc)
    }

    fn call<T>(&self, name: &'static str) -> Result<Symbol<'_, T>, NvrtcError> {
        // SAFETY: the callers name the types of nvrtc.h, which have not changed since version 11.2.
        unsafe { self.library.get(name) }.map_err(|error| NvrtcError::Missing(error.to_string()))
    }

    /// Compiles a source, whole, for one architecture.
    ///
    /// # Errors
    /// [`NvrtcError::Compile`] with the compiler's words, [`NvrtcError::Failed`].
    pub fn compile(
        &self,
        name: &str,
        text: &str,
        arch: &str,
        options: &[&str],
        image: Image,
    ) -> Result<Vec<u8>, NvrtcError> {
        let arch = format!("--gpu-architecture={arch}");
        let options: Vec<String> =
            std::iter::once(arch.as_str()).chain(options.iter().copied()).map(String::from).collect();
        let refused = |log| NvrtcError::Compile { source_name: name.into(), options: options.clone(), log };
        let c_string = |s: &str| CString::new(s).map_err(|_| refused("a NUL byte in it".into()));
        let (text, c_name) = (c_string(text)?, c_string(name)?);
        let c_options = options.iter().map(|o| c_string(o)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = c_options.iter().map(|o| o.as_ptr()).collect();
        let create = self.call::<Create>("nvrtcCreateProgram")?;
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: a place for the program, two strings, no headers.
        let code = unsafe {
            create(&mut program, text.as_ptr(), c_name.as_ptr(), 0, std::ptr::null(), std::ptr::null())
        };
        checked("nvrtcCreateProgram", code)?;
        let made = self.compiled(program, &pointers, image);
        let destroy = self.call::<unsafe extern "C" fn(*mut Program) -> c_int>("nvrtcDestroyProgram")?;
        // SAFETY: the program made above, destroyed once.
        checked("nvrtcDestroyProgram", unsafe { destroy(&mut program) })?;
        made?.map_err(refused)
    }

    /// The image of a program, or the compiler's words.
    fn compiled(
        &self,
        program: Program,
        options: &[*const c_char],
        image: Image,
    ) -> Result<Result<Vec<u8>, String>, NvrtcError> {
        let compile = self.call::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(
            "nvrtcCompileProgram",
        )?;
        // SAFETY: a live program, and as many strings as said.
        if unsafe { compile(program, options.len() as c_int, options.as_ptr()) } != 0 {
            let mut log = self.bytes(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
            log.push(0);
            let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
            return Ok(Err(text.to_string_lossy().into_owned()));
        }
        match image {
            Image::Cubin => self.bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN").map(Ok),
            Image::Ptx => {
                let mut text = self.bytes(program, "nvrtcGetPTXSize", "nvrtcGetPTX")?;
                text.truncate(text.iter().position(|&b| b == 0).unwrap_or(text.len()));
                Ok(Ok(text))
            }
        }
    }

    /// Returns bytes whose size one call returns and another writes.
    fn bytes(&self, program: Program, size: &'static str, get: &'static str) -> Result<Vec<u8>, NvrtcError> {
        let ask = self.call::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?;
        let mut len = 0;
        // SAFETY: a live program, a place for a size.
        checked(size, unsafe { ask(program, &mut len) })?;
        let mut bytes = vec![0u8; len];
        let fetch = self.call::<unsafe extern "C" fn(Program, *mut u8) -> c_int>(get)?;
        // SAFETY: a live program, and as many bytes as it requires.
        checked(get, unsafe { fetch(program, bytes.as_mut_ptr()) })?;
        Ok(bytes)
    }
}

fn checked(call: &'static str, code: c_int) -> Result<(), NvrtcError> {
    if code == 0 { Ok(()) } else { Err(NvrtcError::Failed { call, code }) }
}

fn default_path() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target")),
        PathBuf::from,
    );
    target.join("nvrtc/libnvrtc.so.12")
}
