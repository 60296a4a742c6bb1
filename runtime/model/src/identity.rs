//! The machine and the kernels for which times were measured.

use std::collections::BTreeMap;
use std::fs;

/// The devices and the build for which a file of models is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The device behind each kind, e.g. `cpu` and the processor's name.
    pub devices: BTreeMap<String, String>,
    /// The build of the kernels: version, features, and vector instructions that they choose from.
    pub build: String,
}

impl Identity {
    /// Describes this machine's processor as `cpu`, and a build of the kernels. Other devices are
    /// added by the caller.
    pub fn of_host(build: impl Into<String>) -> Identity {
        let cpu = processor().unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH));
        Identity { devices: [("cpu".to_string(), cpu)].into(), build: build.into() }
    }
}

/// Returns the processor's own name, if the system provides it.
pub fn processor() -> Option<String> {
    name_in(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Returns the processor's name in the text of `/proc/cpuinfo`: in words, or on Arm by number.
fn name_in(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let by_number =
        || Some(format!("CPU implementer {}, part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(by_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names_or_numbers() {
        assert_eq!(name_in("vendor\t: x\nmodel name\t: Fast 9000\n").as_deref(), Some("Fast 9000"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        assert_eq!(name_in(arm).as_deref(), Some("CPU implementer 0x41, part 0xd4f"));
        assert_eq!(name_in("model name"), None);
        assert_eq!(name_in(""), None);
        assert!(!Identity::of_host("1").devices["cpu"].is_empty());
    }
}
