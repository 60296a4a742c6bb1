//! Tests of a process that ends in the middle of writing. They run in a process of their own, since
//! nothing can be written afterwards.

use std::io::Write;

use zellige_files::{abandon, keep, make_folder, remove_if_abandoned, write_whole};

#[test]
fn what_is_unfinished_goes() {
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    for folder in ["was-there", "full", "empty", "empty/inner"] {
        if folder == "was-there" {
            std::fs::create_dir(at(folder)).expect("made");
        }
        make_folder(&at(folder)).expect("made");
    }
    make_folder(&at("no/such")).expect_err("its folder is missing");
    write_whole(&at("full/complete"), |out| out.write_all(b"all")).expect("written");
    for name in ["given-up", "kept"] {
        remove_if_abandoned(&at(name)).expect("noted");
        std::fs::write(at(name), "begun").expect("written");
    }
    keep(&at("kept"));
    let cut = write_whole(&at("cut"), |out| {
        out.write_all(b"half")?;
        abandon();
        assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 3, "was-there, full and kept");
        Ok(())
    });
    cut.expect_err("its temporary file is gone");
    let names: Vec<_> = std::fs::read_dir(place.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(std::fs::read(at("full/complete")).expect("there"), b"all");
    write_whole(&at("later"), |_| Ok(())).expect_err("the process is ending");
    make_folder(&at("later")).expect_err("the process is ending");
}
